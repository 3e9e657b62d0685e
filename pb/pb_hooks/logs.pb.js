/// PocketBase's own request log keeps whole addresses, and a protected file's address carries a
/// token: it is taken out before the line is stored.

onModelCreate((e) => {
  const url = e.model.data.get("url")
  if (url && url.includes("token=")) {
    e.model.data.set("url", url.replace(/([?&]token=)[^&]*/g, "$1***"))
  }
  return e.next()
}, "_logs")
