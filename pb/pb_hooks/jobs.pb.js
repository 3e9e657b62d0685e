/// The owner's edits of the queue, in the panel: a stopped job goes back to work by its `state`.

onRecordUpdateRequest((e) => require(`${__hooks}/lib/edits.js`).job(e), "jobs")

onRecordCreateRequest(() => {
  throw new BadRequestError("Jobs are created by handing in a recording, not here.")
}, "jobs")

onRecordDeleteRequest(() => {
  throw new BadRequestError("A job is deleted with its recording: delete the recording.")
}, "jobs")

onRecordAfterUpdateSuccess((e) => {
  require(`${__hooks}/lib/wake.js`).wake(e.record.get("state"))
  return e.next()
}, "jobs")
