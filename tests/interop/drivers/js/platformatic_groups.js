// The verbs of @platformatic/kafka that have to do with consumer groups: the eager classic protocol, and the consumer
// protocol.
'use strict'

const { Consumer } = require('@platformatic/kafka')
const { NotOffered, deadline, sleep, text } = require('./serve')
const { RESET_TO, Shared } = require('./shared')

module.exports = common => {
  // A member of the group, and the stream of its records.
  async function asMember ({ topic, group, how }, work) {
    if (how === 'cooperative') throw new NotOffered('it has no cooperative protocol')
    const protocol = how === 'consumer' ? { groupProtocol: 'consumer' } : {}
    const consumer = new Consumer({ ...common, groupId: group, maxWaitTime: 200, autocommit: false, ...protocol })
    try {
      const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false })
      try {
        return await work(consumer, stream)
      } finally {
        await stream.close()
      }
    } finally {
      await consumer.close(true)
    }
  }

  const commit = (consumer, topic, shared) => consumer.commit({
    offsets: shared.next().map(([partition, offset]) => ({ topic, partition, offset: BigInt(offset), leaderEpoch: -1 }))
  })

  const take = question => asMember(question, async (consumer, stream) => {
    const taken = new Shared()
    stream.on('data', ({ partition, offset, value }) => taken.records.push([partition, Number(offset), text(value)]))
    for (const until = deadline(); taken.records.length < question.count && Date.now() < until;) await sleep(20)
    await commit(consumer, question.topic, taken)
    return { records: taken.records }
  })

  const share = question => asMember(question, async (consumer, stream) => {
    const shared = new Shared()
    const own = () => consumer.assignments?.find(one => one.topic === question.topic)?.partitions ?? []
    stream.on('data', ({ partition, offset, value }) => shared.add(partition, Number(offset), text(value)))
    const looking = setInterval(() => shared.assign(own()), 50)
    try {
      await shared.over
    } finally {
      clearInterval(looking)
    }
    await commit(consumer, question.topic, shared)
    return { records: shared.records }
  })

  async function committed (admin, topic, group) {
    const [found] = await admin.listConsumerGroupOffsets({ groups: [group] })
    const partitions = found.topics.find(one => one.name === topic)?.partitions ?? []
    return Number(partitions.find(one => one.partitionIndex === 0)?.committedOffset ?? -1)
  }

  // Does what an administrator can do to a group; each answer is true, or what was wrong.
  async function administer (admin, { topic, group }) {
    const told = { list: (await admin.listGroups()).has(group) }
    const described = (await admin.describeGroups({ groups: [group] })).get(group)
    told.describe = described.state.toLowerCase() === 'empty' || described.state
    told.offsets = await committed(admin, topic, group) > RESET_TO
    const partitionOffsets = [{ partition: 0, offset: BigInt(RESET_TO) }]
    await admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name: topic, partitionOffsets }] })
    told.reset = await committed(admin, topic, group) === RESET_TO
    await admin.deleteConsumerGroupOffsets({ groupId: group, topics: [{ name: topic, partitionIndexes: [0] }] })
    told['delete offsets'] = await committed(admin, topic, group) === -1
    await admin.deleteGroups({ groups: [group] })
    told.delete = !(await admin.listGroups()).has(group)
    return told
  }

  return { take, share, administer }
}
