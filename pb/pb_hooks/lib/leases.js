// What the tables with leases share: times, by this database's clock in PocketBase's own form, and
// leases let go.

const NOW = "strftime('%Y-%m-%d %H:%M:%fZ', 'now')"
const AFTER = (seconds) => `strftime('%Y-%m-%d %H:%M:%fZ', 'now', {:${seconds}} || ' seconds')`
const NO_LEASE = "lease_token = '', leased_at = '', leased_by = ''"

/** Give back what the previous process of this name held of `answers` or `operations`. */
function giveBack(table, worker) {
  return $app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE ${table} SET ${NO_LEASE}, updated = ${NOW}
       WHERE leased_by = {:worker} AND lease_token <> ''`,
    )
    .bind({ worker: worker })
    .execute()
    .rowsAffected()
}

module.exports = { NOW, AFTER, NO_LEASE, giveBack }
