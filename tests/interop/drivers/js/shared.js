// One member that shares a topic with others: its records, and whether it has all that is its own.
'use strict'

const { WAIT_MS, tell } = require('./serve')

const LAST = 'last'
const RESET_TO = 3

class Shared {
  constructor () {
    this.records = []
    this.assigned = []
    this.own = null
    this.ended = new Set()
    this.over = new Promise((resolve, reject) => {
      this.end = resolve
      setTimeout(() => reject(new Error(`${this.records.length} records came`)), 3 * WAIT_MS).unref()
    })
  }

  assign (partitions) {
    const now = [...partitions].sort((a, b) => a - b)
    if (now.join() !== this.assigned.join()) tell({ assigned: this.assigned = now })
  }

  // The partitions that the member has at the first record are its own.
  add (partition, offset, value) {
    this.own ??= this.assigned
    this.records.push([partition, offset, value])
    if (value === LAST) this.ended.add(partition)
    if (this.own.every(one => this.ended.has(one))) this.end()
  }

  // The offsets to commit, by partition.
  next () {
    const next = new Map()
    for (const [partition, offset] of this.records) next.set(partition, Math.max(next.get(partition) ?? 0, offset + 1))
    return [...next]
  }
}

module.exports = { LAST, RESET_TO, Shared }
