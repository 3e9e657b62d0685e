// Wake-ups: a hint that work may be there. Polling stays the truth.

const TOPIC = "transcriber/wake"

/** Tell every worker that listens. Whoever else subscribed to the topic is sent nothing. */
function wake(...states) {
  const message = new SubscriptionMessage({ name: TOPIC, data: JSON.stringify({ states: states }) })
  const clients = $app.subscriptionsBroker().clients()
  for (const id in clients) {
    const client = clients[id]
    const auth = client.get("auth")
    if (auth && auth.collection().name === "workers" && client.hasSubscription(TOPIC)) {
      client.send(message)
    }
  }
}

module.exports = { wake, TOPIC }
