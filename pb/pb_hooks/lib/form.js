// Reading a multipart form that carries a file.

// Bytes of a form that are kept in memory; the rest lies on disk. PocketBase would keep 32 MB of it,
// and as much of the body again so that others can read it once more.
const IN_MEMORY = 1 << 20

/** Read the form, with little memory however large it is and however many come at once. */
function read(e) {
  // The reader that keeps the body lies below that of the body limit, where there is one.
  for (let reader = e.request.body; reader; reader = reader.readCloser) {
    if (reader.maxMemory !== undefined) {
      reader.maxMemory = IN_MEMORY
      break
    }
  }
  e.request.parseMultipartForm(IN_MEMORY)
}

module.exports = { read }
