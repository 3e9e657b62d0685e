// What the owner's save of a job may change. The form may be an hour old and carries every column,
// so the row is read and written inside one transaction, and only what is the owner's is taken.

const operations = require(`${__hooks}/lib/operations.js`)
const queue = require(`${__hooks}/lib/queue.js`)
const transcripts = require(`${__hooks}/lib/transcripts.js`)

const OWNERS = ["priority", "note"]
const STOPPED = ["failed", "dead"]

function job(e) {
  const app = e.app
  // What the request changes: the row may be another by the time it is its turn to write.
  const loaded = e.record.original()
  const wanted = {}
  for (const field of ["state", ...OWNERS]) {
    if (e.record.get(field) !== loaded.get(field)) {
      wanted[field] = e.record.get(field)
    }
  }
  const seen = updatedOfForm(e)
  refuseOddPriority(e)

  return app.runInTransaction((tx) => {
    e.app = tx
    try {
      const stored = tx.findRecordById("jobs", e.record.id)
      refuseStale(seen, stored)
      for (const name of stored.collection().fields.fieldNames()) {
        if (name !== "updated") {
          e.record.set(name, OWNERS.includes(name) && name in wanted ? wanted[name] : stored.get(name))
        }
      }
      if ("state" in wanted && wanted.state !== stored.get("state")) {
        goBack(tx, e.record, stored, wanted.state)
      }
      e.record.ignoreUnchangedFields(true)
      if ("priority" in wanted) {
        tx.nonconcurrentDB()
          .newQuery("UPDATE operations SET priority = {:p} WHERE recording = {:id}")
          .bind({ p: wanted.priority, id: e.record.id })
          .execute()
      }
      return e.next()
    } finally {
      e.app = app
    }
  })
}

/** The time that the form was opened at, or empty; `requestInfo` has the stored one in its place. */
function updatedOfForm(e) {
  const form = new DynamicModel({ updated: "" })
  e.bindBody(form)
  return form.updated
}

function refuseStale(seen, stored) {
  if (seen && seen !== stored.getString("updated")) {
    throw new BadRequestError(
      "This job has moved on since the form was opened. Reload it, without restoring the draft, and make the change again.",
    )
  }
}

/** PocketBase makes 0 of what is no number at all; the field's own limits look at the rest. */
function refuseOddPriority(e) {
  try {
    e.bindBody(new DynamicModel({ priority: -0 }))
  } catch {
    throw new BadRequestError("The priority is a whole number from -1000 to 1000.")
  }
}

function goBack(tx, record, stored, state) {
  if (!STOPPED.includes(stored.get("state"))) {
    throw new BadRequestError(
      "The state of a job can be changed only when it is stopped (failed or dead); this one is not.",
    )
  }
  if (!queue.MILESTONES.includes(state)) {
    throw new BadRequestError("A stopped job goes back to work by a milestone as its state.")
  }
  if (state === "done" && !transcripts.find(tx, record.id, "raw")) {
    throw new BadRequestError(
      "This job has no text: choose the milestone to go on from. `uploaded` does everything again.",
    )
  }
  const changes = queue.returned(state)
  for (const name in changes) {
    record.set(name, changes[name])
  }
  if (changes.operation === "") {
    // What the local recogniser still has of it belongs to the attempt that is over.
    operations.cancel(tx, "recording = {:id}", { id: record.id })
  }
}

module.exports = { job }
