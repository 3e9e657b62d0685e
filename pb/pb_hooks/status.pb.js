/// GET /api/status/:id: how far a recording has come, for its owner alone.

routerAdd(
  "GET",
  "/api/status/{id}",
  (e) => {
    const { errors, status } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      return e.json(200, status.of(e.request.pathValue("id"), e.auth.id))
    })
  },
  require(`${__hooks}/lib/routes.js`).oneErrorForm(),
  require(`${__hooks}/lib/routes.js`).usersOnly(),
)
