/// The operations' routes, for workers alone: the local recogniser's, and `take` for remote ones.

routerAdd(
  "POST",
  "/api/operations",
  (e) => {
    const { body, errors, operations } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const fields = { recording: "name", lease_token: "name" }
      const asked = body.read(e, fields)
      return e.json(200, { operation: operations.submit(asked) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/operations/claim",
  (e) => {
    const { body, errors, operations } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const fields = { worker: "name", lease_seconds: "seconds" }
      const asked = body.read(e, fields)
      if (asked.lease_seconds === 0) {
        throw new errors.Refusal("bad_request")
      }
      return e.json(200, { operations: operations.claim(asked) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/operations/take",
  (e) => {
    const { body, errors, operations } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const fields = { recording: "name", recogniser: "name", lease_token: "name" }
      const asked = body.read(e, fields)
      return e.json(200, operations.take(asked))
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/operations/restart",
  (e) => {
    const { body, errors, operations } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const { worker } = body.read(e, { worker: "name" })
      return e.json(200, { returned: operations.restart(worker) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "GET",
  "/api/operations/{id}",
  (e) => {
    const { errors, operations } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () =>
      e.json(200, operations.look(e.request.pathValue("id"))),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "DELETE",
  "/api/operations/{id}",
  (e) => {
    const { errors, operations } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      operations.forget(e.request.pathValue("id"))
      return e.json(200, {})
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

// What the holder of an operation's lease may do with it.
routerAdd(
  "POST",
  "/api/operations/{id}/{action}",
  (e) => {
    const { body, errors, operations } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const id = e.request.pathValue("id")
      const action = e.request.pathValue("action")
      if (!Object.hasOwn(operations.actions, action)) {
        throw new errors.Refusal("not_found")
      }
      const asked = body.read(e, operations.actions[action])
      switch (action) {
        case "cut":
          operations.cut(id, asked)
          return e.json(200, {})
        case "segments":
          return e.json(200, { yield: operations.write(id, asked) })
        case "renew":
          return e.json(200, { yield: operations.renew(id, asked) })
        default:
          operations.finish(id, asked)
          return e.json(200, {})
      }
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
  $apis.bodyLimit(64 * 1024 * 1024),
)
