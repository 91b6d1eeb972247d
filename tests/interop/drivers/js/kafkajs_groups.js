// The verbs of kafkajs that have to do with consumer groups. It has the eager protocol alone, and its own assignor.
'use strict'

const { WAIT_MS, NotOffered, text } = require('./serve')
const { RESET_TO, Shared } = require('./shared')

const IS_1 = require('kafkajs/package.json').version.startsWith('1.') // one topic in a call, and not a list of them

module.exports = kafka => {
  // Hears of records until `over`, then commits what came and leaves.
  async function asMember ({ topic, group, how }, shared, over) {
    if (how !== 'eager') throw new NotOffered('it has the eager protocol alone')
    const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 200 })
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => shared.assign(payload.memberAssignment[topic] ?? []))
    await consumer.connect()
    await consumer.subscribe({ ...IS_1 ? { topic } : { topics: [topic] }, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => shared.add(partition, Number(message.offset), text(message.value))
    })
    try {
      await over
      await consumer.commitOffsets(shared.next().map(([partition, offset]) => ({ topic, partition, offset: String(offset) })))
    } finally {
      await consumer.disconnect()
    }
    return { records: shared.records }
  }

  class Taken extends Shared {
    constructor (count) {
      super()
      this.count = count
    }

    assign () {}

    add (partition, offset, value) {
      this.records.push([partition, offset, value])
      if (this.records.length === this.count) this.end()
    }
  }

  const take = question => {
    const taken = new Taken(question.count)
    return asMember(question, taken, Promise.race([taken.over, new Promise(resolve => setTimeout(resolve, WAIT_MS))]))
  }

  const share = question => {
    const shared = new Shared()
    return asMember(question, shared, shared.over)
  }

  async function committed (admin, topic, groupId) {
    const found = await admin.fetchOffsets({ groupId, ...IS_1 ? { topic } : { topics: [topic] } })
    return Number((IS_1 ? found : found[0].partitions).find(one => one.partition === 0)?.offset ?? -1)
  }

  // Does what an administrator can do to a group; each answer is true, or what was wrong.
  async function administer (admin, { topic, group }) {
    const isListed = async () => (await admin.listGroups()).groups.some(one => one.groupId === group)
    const told = { list: await isListed() }
    const { groups: [described] } = await admin.describeGroups([group])
    told.describe = described.state === 'Empty' || described.state
    told.offsets = await committed(admin, topic, group) > RESET_TO
    await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: String(RESET_TO) }] })
    told.reset = await committed(admin, topic, group) === RESET_TO
    await admin.deleteGroups([group])
    told.delete = !await isListed()
    return told
  }

  return { take, share, administer }
}
