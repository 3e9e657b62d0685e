/// GET /api/transcript/:id/:kind: a recording's text of one kind, for its owner alone.

routerAdd(
  "GET",
  "/api/transcript/{id}/{kind}",
  (e) => {
    const { errors, transcripts } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const { id, kind } = { id: e.request.pathValue("id"), kind: e.request.pathValue("kind") }
      return e.json(200, transcripts.of(id, kind, e.auth.id))
    })
  },
  require(`${__hooks}/lib/routes.js`).oneErrorForm(),
  require(`${__hooks}/lib/routes.js`).usersOnly(),
)
