// The layers that routes of ours stand behind. Handlers are serialised, so each requires what it
// needs for itself; these run while the hook files load.

// PocketBase's own layers, by the source of 0.40 (apis/middlewares*.go): activity log -1040, panic
// recovery -1030, session -1020, rate limit -1000, body limit -990.
const OUTSIDE_ALL_BUT_THE_LOG = -1035
const BEFORE_THE_BODY_IS_READ = -995

/** Outermost: refusals of PocketBase's own layers get our form as well. */
const oneErrorForm = () =>
  new Middleware(
    (e) =>
      require(`${__hooks}/lib/errors.js`).guard(e, () => {
        // PocketBase would pick these fields out of our answers as well, or fail over their form,
        // when what was asked for has been done already.
        const query = e.request.url.query()
        if (query.has("fields")) {
          query.del("fields")
          e.request.url.rawQuery = query.encode()
        }
        return e.next()
      }),
    OUTSIDE_ALL_BUT_THE_LOG,
    "transcriberOneErrorForm",
  )

/**
 * 401 without a session, 403 without an account of this collection, both before the body is read.
 * PocketBase's own layer: one of ours would hold a JavaScript engine until the request is answered.
 */
const only = (collection) => {
  const layer = $apis.requireAuth(collection)
  layer.priority = BEFORE_THE_BODY_IS_READ
  return layer
}

const usersOnly = () => only("users")

/** The service's own processes, whose calls are too many for the activity log. */
const workersOnly = () => [oneErrorForm(), only("workers"), $apis.skipSuccessActivityLog()]

module.exports = { oneErrorForm, usersOnly, workersOnly }
