/// What recordings that are gone left with a recogniser elsewhere: noted when they go, and removed there
/// by the process that has its key.

// In the transaction of the deletion: a crash leaves neither of the two without the other.
onRecordDelete((e) => {
  e.next()
  const { state, operation } = { state: e.record.get("state"), operation: e.record.get("operation") }
  if (operation && ["submitted", "failed", "dead"].includes(state)) {
    require(`${__hooks}/lib/leftovers.js`).note(e.app, operation)
  }
}, "jobs")

onRecordAfterDeleteSuccess((e) => {
  if (e.record.get("operation")) {
    require(`${__hooks}/lib/wake.js`).wake("leftovers")
  }
  return e.next()
}, "jobs")

routerAdd(
  "POST",
  "/api/queue/leftovers",
  (e) => {
    const { body, errors, leftovers } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const { operation } = body.read(e, { operation: "name" })
      if (operation.length > 200) {
        throw new errors.Refusal("bad_request")
      }
      return e.json(200, { noted: leftovers.note($app, operation) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/leftovers/claim",
  (e) => {
    const { errors, leftovers } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () =>
      e.json(200, { operations: leftovers.claim() }),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/leftovers/removed",
  (e) => {
    const { body, errors, leftovers } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const { operation } = body.read(e, { operation: "name" })
      leftovers.removed(operation)
      return e.json(200, {})
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)
