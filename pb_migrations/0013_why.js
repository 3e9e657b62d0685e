/// Why a step judged a recording for good, as far as its sender may be told: a closed list.
migrate(
  (app) => {
    const jobs = app.findCollectionByNameOrId("jobs")
    jobs.fields.add(new SelectField({ name: "why", values: ["no_sound", "unreadable", "too_long"] }))
    app.save(jobs)
  },
  (app) => {
    const jobs = app.findCollectionByNameOrId("jobs")
    jobs.fields.removeByName("why")
    app.save(jobs)
  },
)
