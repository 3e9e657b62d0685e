/// The token of the last step written of an answer, so that a step sent twice is known.
migrate(
  (app) => {
    const answers = app.findCollectionByNameOrId("answers")
    answers.fields.add(new TextField({ name: "written_token", max: 64 }))
    app.save(answers)
  },
  (app) => {
    const answers = app.findCollectionByNameOrId("answers")
    answers.fields.removeByName("written_token")
    app.save(answers)
  },
)
