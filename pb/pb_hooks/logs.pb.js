/// PocketBase's own request log keeps whole addresses. What stands behind the `?` is a protected
/// file's token, or the words that somebody searched his texts for: it is taken off before the line
/// is stored, in each of the places where PocketBase puts an address.

onModelCreate((e) => {
  const log = e.model
  if (log.data.get("type") === "request") {
    if (log.message.includes("?")) {
      log.data.set("details", null) // they quote what was asked
    }
    log.message = log.message.split("?")[0]
    for (const field of ["url", "referer"]) {
      log.data.set(field, String(log.data.get(field) || "").split("?")[0])
    }
  }
  return e.next()
}, "_logs")
