/// Whose turn it is: an operation knows its sender, and what a sender's operations had lately is found
/// by an index. And the sender's hint on channels: mixed to one, or a speaker in each.
migrate(
  (app) => {
    const recordings = app.findCollectionByNameOrId("recordings")
    recordings.fields.add(new SelectField({ name: "channels", values: ["mix", "split"] }))
    app.save(recordings)
    const operations = app.findCollectionByNameOrId("operations")
    operations.fields.add(new TextField({ name: "sender", max: 100 }))
    operations.addIndex("idx_operations_sender", false, "sender, progressed_at", "")
    app.save(operations)
    app
      .db()
      .newQuery(
        `UPDATE operations SET sender = coalesce(
           (SELECT coalesce(nullif(r.owner, ''), 'chat:' || j.chat_id)
            FROM recordings r JOIN jobs j ON j.recording = r.id
            WHERE r.id = operations.recording), '')`,
      )
      .execute()
  },
  (app) => {
    const operations = app.findCollectionByNameOrId("operations")
    operations.removeIndex("idx_operations_sender")
    operations.fields.removeByName("sender")
    app.save(operations)
    const recordings = app.findCollectionByNameOrId("recordings")
    recordings.fields.removeByName("channels")
    app.save(recordings)
  },
)
