/// The operations' routes, for workers alone: the local recogniser's, and `take` for remote ones.

routerAdd(
  "POST",
  "/api/operations",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const fields = { recording: "name", lease_token: "name" }
      const body = require(`${__hooks}/lib/body.js`).read(e, fields)
      return e.json(200, { operation: require(`${__hooks}/lib/operations.js`).submit(body) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/operations/claim",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const fields = { worker: "name", lease_seconds: "seconds" }
      const body = require(`${__hooks}/lib/body.js`).read(e, fields)
      if (body.lease_seconds === 0) {
        throw new errors.Refusal("bad_request")
      }
      return e.json(200, { operations: require(`${__hooks}/lib/operations.js`).claim(body) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/operations/take",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const fields = { recording: "name", recogniser: "name", lease_token: "name" }
      const body = require(`${__hooks}/lib/body.js`).read(e, fields)
      return e.json(200, require(`${__hooks}/lib/operations.js`).take(body))
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/operations/restart",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const { worker } = require(`${__hooks}/lib/body.js`).read(e, { worker: "name" })
      return e.json(200, { returned: require(`${__hooks}/lib/operations.js`).restart(worker) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "GET",
  "/api/operations/{id}",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () =>
      e.json(200, require(`${__hooks}/lib/operations.js`).look(e.request.pathValue("id"))),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "DELETE",
  "/api/operations/{id}",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      require(`${__hooks}/lib/operations.js`).forget(e.request.pathValue("id"))
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
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const operations = require(`${__hooks}/lib/operations.js`)
      const id = e.request.pathValue("id")
      const action = e.request.pathValue("action")
      if (!Object.hasOwn(operations.actions, action)) {
        throw new errors.Refusal("not_found")
      }
      const body = require(`${__hooks}/lib/body.js`).read(e, operations.actions[action])
      switch (action) {
        case "cut":
          operations.cut(id, body)
          return e.json(200, {})
        case "segments":
          return e.json(200, { yield: operations.write(id, body) })
        case "renew":
          return e.json(200, { yield: operations.renew(id, body) })
        default:
          operations.finish(id, body)
          return e.json(200, {})
      }
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
  $apis.bodyLimit(64 * 1024 * 1024),
)
