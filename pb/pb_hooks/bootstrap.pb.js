/// Every start: the migrations, the owner's account if there is none, the workers' account.

onBootstrap((e) => {
  e.next()
  if (!$os.args.includes("serve")) {
    return // a command of PocketBase's own (migrate, superuser) does what it says and no more
  }
  e.app.runAllMigrations()
  const accounts = require(`${__hooks}/lib/accounts.js`)
  accounts.owner(e.app)
  accounts.workers(e.app)
})
