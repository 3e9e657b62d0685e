// Where recordings' files lie. A stored name is an identifier of our own plus an extension: what
// the sender called the file is not written anywhere, PocketBase's metadata beside it included.

/** The sender's extension, or `audio` where the tail is missing or no safe part of a file name. */
function extensionOf(name) {
  const dot = name.lastIndexOf(".")
  const tail = dot < 0 ? "" : name.slice(dot + 1)
  // The store keeps `.attrs` for its own notes and takes no file of that name.
  return /^[A-Za-z0-9_-]{1,16}$/.test(tail) && tail !== "attrs" ? tail : "audio"
}

const folder = (recordingId) =>
  `${$app.findCachedCollectionByNameOrId("recordings").id}/${recordingId}`

/** Put an uploaded file under its own name. Returns its key below the storage root. */
function put(file, recordingId, name) {
  const key = `${folder(recordingId)}/${name}`
  file.name = name
  file.originalName = name
  const files = $app.newFilesystem()
  try {
    files.uploadFile(file, key)
  } finally {
    files.close()
  }
  return key
}

/** Remove one file, or with no name the recording's whole folder. */
function remove(recordingId, name = "") {
  const files = $app.newFilesystem()
  try {
    if (name) {
      files.delete(`${folder(recordingId)}/${name}`)
    } else {
      files.deletePrefix(`${folder(recordingId)}/`)
    }
  } finally {
    files.close()
  }
}

/** Whether a file lies where its record says. */
function stored(recordingId, name) {
  const files = $app.newFilesystem()
  try {
    return files.exists(`${folder(recordingId)}/${name}`)
  } finally {
    files.close()
  }
}

/** Stream a file to a worker. */
function serve(e, recordingId, name) {
  // A long file on a slow line outlives the server's five minutes.
  e.response.unwrap().setWriteDeadline(new DateTime("0001-01-01 00:00:00.000Z").time())
  const files = $app.newFilesystem()
  try {
    files.serve(e.response, e.request, `${folder(recordingId)}/${name}`, name)
  } finally {
    files.close()
  }
}

// Slower than any line that people hand recordings in over, in bytes a second.
const SLOWEST = 16 * 1024
const PATIENCE = 600 // seconds, however small the body

/**
 * Let a request take as long as its size needs, where the server would end it after five minutes.
 * `limit` is how many bytes it may have where it does not say.
 */
function takeYourTime(e, limit) {
  const bytes = e.request.contentLength >= 0 ? e.request.contentLength : limit
  const seconds = PATIENCE + bytes / SLOWEST
  const after = (more) => new DateTime().add(Math.round((seconds + more) * 1e9)).time()
  e.response.unwrap().setReadDeadline(after(0))
  e.response.unwrap().setWriteDeadline(after(PATIENCE))
}

module.exports = { extensionOf, folder, put, remove, stored, serve, takeYourTime }
