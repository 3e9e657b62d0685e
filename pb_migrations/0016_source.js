/// Each job knows its recording's input, which never changes: a claim need not look it up elsewhere.
migrate(
  (app) => {
    const jobs = app.findCollectionByNameOrId("jobs")
    jobs.fields.add(new SelectField({ name: "source", values: ["http", "telegram"] }))
    app.save(jobs)
    app
      .nonconcurrentDB()
      .newQuery(
        `UPDATE jobs SET source =
           coalesce((SELECT source FROM recordings WHERE recordings.id = jobs.recording), '')`,
      )
      .execute()
  },
  (app) => {
    const jobs = app.findCollectionByNameOrId("jobs")
    jobs.fields.removeByName("source")
    app.save(jobs)
  },
)
