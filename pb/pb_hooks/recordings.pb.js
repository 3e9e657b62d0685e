/// The owner's edits of a recording: hints, title and recogniser are the owner's, the rest is the
/// service's.

// A save through the API writes every column as the form had it, an hour ago perhaps. Here only what
// the owner may change is taken from the form; the columns that a step writes are left alone.
onRecordUpdateRequest((e) => {
  const stored = e.record.original()
  for (const field of ["audio", "normalized", "owner", "source", "extension", "size", "duration"]) {
    e.record.set(field, stored.get(field))
  }
  e.record.ignoreUnchangedFields(true)
  return e.next()
}, "recordings")

onRecordCreateRequest(() => {
  throw new BadRequestError("Recordings are created by handing them in, not here.")
}, "recordings")
