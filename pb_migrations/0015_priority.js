/// The owner's priority is a whole number of a sensible size; what was not is brought to the nearest.
migrate(
  (app) => {
    for (const table of ["jobs", "operations"]) {
      app
        .nonconcurrentDB()
        .newQuery(
          `UPDATE ${table} SET priority = max(-1000, min(1000, CAST(priority AS INTEGER)))
           WHERE priority <> max(-1000, min(1000, CAST(priority AS INTEGER)))`,
        )
        .execute()
    }
    const jobs = app.findCollectionByNameOrId("jobs")
    const priority = jobs.fields.getByName("priority")
    priority.onlyInt = true
    priority.min = -1000
    priority.max = 1000
    app.save(jobs)
  },
  (app) => {
    const jobs = app.findCollectionByNameOrId("jobs")
    const priority = jobs.fields.getByName("priority")
    priority.onlyInt = false
    priority.min = null
    priority.max = null
    app.save(jobs)
  },
)
