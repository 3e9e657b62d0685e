/// The queue's routes, for workers alone: ask what is due, claim jobs, write their results, give them back.

routerAdd(
  "POST",
  "/api/queue/due",
  (e) => {
    const { body, errors, queue } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const { claims } = body.read(e, { claims: "list" })
      return e.json(200, { states: queue.due(claims) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/claim",
  (e) => {
    const { body, errors, queue } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const wanted = queue.wanted(body.read(e, {}))
      return e.json(200, { jobs: queue.claim($app, wanted) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/finish",
  (e) => {
    const { body, errors, queue } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const { results, next } = body.read(e, { results: "list" })
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
    const { body, errors, queue } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const fields = { worker: "name", keep: "list?" }
      const { worker, keep } = body.read(e, fields)
      return e.json(200, { returned: queue.restart(worker, keep) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/normalized/{id}",
  (e) => {
    const { errors, normalized } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () =>
      e.json(200, normalized.receive(e, e.request.pathValue("id"))),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
  $apis.bodyLimit(0), // the service's own product, bounded by MAX_DURATION_HOURS
)

routerAdd(
  "GET",
  "/api/queue/recording/{id}",
  (e) => {
    const { errors, queue } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () =>
      e.json(200, queue.recording(e.request.pathValue("id"))),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "GET",
  "/api/queue/transcript/{id}/{kind}",
  (e) => {
    const { errors, transcripts } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
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
    const { errors, normalized } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () =>
      normalized.send(
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
    const { counters, errors, queue } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () =>
      e.json(200, {
        states: queue.stats(),
        counters: counters.all(),
      }),
    )
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)
