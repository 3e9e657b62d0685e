/// The queue's routes, for workers alone: claim jobs, write their results, give them back.

routerAdd(
  "POST",
  "/api/queue/claim",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const queue = require(`${__hooks}/lib/queue.js`)
      const wanted = queue.wanted(require(`${__hooks}/lib/body.js`).read(e, {}))
      return e.json(200, { jobs: queue.claim($app, wanted) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/finish",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const queue = require(`${__hooks}/lib/queue.js`)
      const { results, next } = require(`${__hooks}/lib/body.js`).read(e, { results: "list" })
      const wanted = next === undefined || next === null ? null : queue.wanted(next)
      return e.json(200, queue.finish(results, wanted))
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
  $apis.bodyLimit(256 * 1024 * 1024), // a day's transcript with words comes in one piece
)

routerAdd(
  "POST",
  "/api/queue/restart",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const fields = { worker: "name", keep: "list?" }
      const { worker, keep } = require(`${__hooks}/lib/body.js`).read(e, fields)
      return e.json(200, { returned: require(`${__hooks}/lib/queue.js`).restart(worker, keep) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/normalized/{id}",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () =>
      e.json(200, require(`${__hooks}/lib/normalized.js`).receive(e, e.request.pathValue("id"))),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
  $apis.bodyLimit(0), // the service's own product, bounded by MAX_DURATION_HOURS
)

routerAdd(
  "GET",
  "/api/queue/recording/{id}",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () =>
      e.json(200, require(`${__hooks}/lib/queue.js`).recording(e.request.pathValue("id"))),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "GET",
  "/api/queue/transcript/{id}/{kind}",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const transcripts = require(`${__hooks}/lib/transcripts.js`)
      const { id, kind } = { id: e.request.pathValue("id"), kind: e.request.pathValue("kind") }
      return e.json(200, { transcript: transcripts.find($app, id, kind) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

// No file name and no token stands in this address: addresses end up in logs.
routerAdd(
  "GET",
  "/api/queue/audio/{id}/{kind}",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () =>
      require(`${__hooks}/lib/normalized.js`).send(
        e,
        e.request.pathValue("id"),
        e.request.pathValue("kind"),
      ),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "GET",
  "/api/queue/stats",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () =>
      e.json(200, {
        states: require(`${__hooks}/lib/queue.js`).stats(),
        counters: require(`${__hooks}/lib/counters.js`).all(),
      }),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)
