/// Every hour: stored files whose recording was never created (a crash in between) are removed.

cronAdd("transcriberSweep", "17 * * * *", () => {
  require(`${__hooks}/lib/sweep.js`).sweep()
})
