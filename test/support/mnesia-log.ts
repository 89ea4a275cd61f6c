/** The log of Mnesia, where RabbitMQ stores its queues. */

/**
 * Whether what was declared under this name outlives a kill: a transaction with it is in the log, and its outcome behind it.
 * Mnesia writes the outcome down later, and takes back at its next start what has none.
 *
 * @param log bytes of LATEST.LOG, each as one character (`latin1`)
 */
export function isCommitted(log: string, name: string): boolean {
  for (let at = log.indexOf(name); at !== -1; at = log.indexOf(name, at + 1)) {
    const presumed = log.lastIndexOf("presume_", at);
    if (log.startsWith("presume_commit", presumed)) return true;
    const begin = log.lastIndexOf("tid", presumed);
    if (presumed === -1 || begin === -1) continue;
    // Up to the header of the next word, whose length differs.
    const transaction = log.slice(begin, presumed - 3);
    const outcome = log.indexOf(transaction, at);
    if (outcome === -1) continue;
    const behind = outcome + transaction.length;
    if (log.slice(behind, behind + 12).includes("committed")) return true;
  }
  return false;
}
