/** The result that `pg` returns for a statement without rows. */
export const emptyResult = { command: "", rowCount: null, oid: 0, fields: [], rows: [] };
