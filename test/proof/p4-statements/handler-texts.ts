/** Statements that handlers send, with the number of their parameters. */

/** The business row of a request or a call: key, life, by. */
export function rowInsert(business: string): string {
  return `insert into ${business} (key, life, by) values ($1, $2, $3)`;
}

/** The business row of a message: key, life. Its `by` shows whether a setting of another message was in force. */
export function messageInsert(business: string): string {
  return `insert into ${business} (key, life, by)
    select $1::text, $2::text, 'its handler' || coalesce(pg_catalog.current_setting('p4.setting', true), '')`;
}
