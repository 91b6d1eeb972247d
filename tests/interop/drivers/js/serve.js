// The protocol of a driver, as tests/interop/drivers/serve.py has it: a line of stdin is a question in JSON, a line of
// stdout is its answer.
'use strict'

const readline = require('node:readline')
const fs = require('node:fs')

const WAIT_MS = 20000

class NotOffered extends Error {}

// The error of a call that this version of the client does not have.
const LACKS = /^(?:admin|producer|consumer)\.(\w+) is not a function$/

function tell (answer) {
  const plain = (_, value) => typeof value === 'bigint' ? Number(value) : value
  fs.writeSync(1, JSON.stringify(answer, plain) + '\n')
}

async function serve (verbs) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const question = JSON.parse(line)
    try {
      if (!verbs[question.do]) throw new NotOffered('the client has no such call')
      tell(await verbs[question.do](question) ?? {})
    } catch (error) {
      const lacks = error instanceof TypeError && LACKS.exec(error.message)
      if (error instanceof NotOffered) tell({ not_offered: error.message })
      else if (lacks) tell({ not_offered: `this version has no ${lacks[1]}` })
      else tell({ error: described(error) })
    }
  }
  process.exit(0)
}

// An error that was made of others says what they say.
function described (error) {
  const inner = (error.errors ?? []).map(described)
  return [`${error.name}: ${error.message}`, ...inner].join(' / ')
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

// Calls send with 0 to count - 1, spread evenly over the time.
async function paced (count, seconds, send) {
  const began = performance.now()
  for (let number = 0; number < count; number++) {
    await sleep(began + number * seconds * 1000 / count - performance.now())
    send(number)
  }
}

// Collects the acks of a stream, and tells once that a third of its records were acked.
class Stream {
  constructor (count) {
    this.at = Math.floor(count / 3)
    this.acked = []
    this.failed = []
  }

  done (partition, offset, value) {
    this.acked.push([partition, offset, value])
    if (this.acked.length === this.at) tell({ progress: this.at })
  }
}

const text = value => value == null ? null : value.toString()
const deadline = () => Date.now() + WAIT_MS

module.exports = { WAIT_MS, NotOffered, Stream, deadline, described, paced, serve, sleep, tell, text }
