// The driver of @platformatic/kafka. Its streams belong to groups; its `fetch` does not, and keeps fetch sessions.
'use strict'

const { Admin, Consumer, Producer, ConfigResourceTypes, ListOffsetTimestamps } = require('@platformatic/kafka')
const { WAIT_MS, Stream, deadline, described, paced, serve, sleep, tell, text } = require('./serve')

const SET = 0
const common = { clientId: 'interop', bootstrapBrokers: process.argv[2].split(','), retries: 60, retryDelay: 250 }

const withClient = (Client, options, work) => async question => {
  const client = new Client({ ...common, ...options })
  try {
    return await work(client, question)
  } finally {
    await client.close()
  }
}
const withAdmin = work => withClient(Admin, { retries: 2 }, work)
const withConsumer = work => withClient(Consumer, { groupId: 'interop', maxWaitTime: 200 }, work)

async function create (admin, { topic, partitions, replicas, configs }) {
  const list = Object.entries(configs).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ topics: [topic], partitions, replicas, configs: list })
}

async function describe (admin, { topic }) {
  const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true })
  return { partitions: topics.get(topic).partitions.map(({ leader, replicas, isr }) => ({ leader, replicas, isr })) }
}

async function cluster (admin) {
  const { id, brokers } = await admin.metadata({ topics: [], forceUpdate: true })
  const nodes = Object.fromEntries([...brokers].map(([node, { host, port }]) => [node, `${host}:${port}`]))
  return { cluster_id: id, nodes }
}

async function configs (admin, { topic }) {
  const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configurationKeys: null }]
  const [found] = await admin.describeConfigs({ resources })
  return { configs: Object.fromEntries(found.configs.map(({ name, value }) => [name, value])) }
}

async function alterConfigs (admin, { topic, configs }) {
  const list = Object.entries(configs).map(([name, value]) => ({ name, value, configOperation: SET }))
  const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configs: list }]
  await admin.incrementalAlterConfigs({ resources })
}

const addPartitions = (admin, { topic, count }) => admin.createPartitions({ topics: [{ name: topic, count, assignments: null }] })
const deleteTopic = (admin, { topic }) => admin.deleteTopics({ topics: [topic] })

async function deleteRecords (admin, { topic, partition, before }) {
  await admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition, offset: BigInt(before) }] }] })
}

async function offsets (admin, { topic, partition, timestamp }) {
  const asked = { earliest: ListOffsetTimestamps.EARLIEST, latest: ListOffsetTimestamps.LATEST, at_timestamp: BigInt(timestamp) }
  const told = {}
  for (const [name, when] of Object.entries(asked)) {
    const [found] = await admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: partition, timestamp: when }] }] })
    told[name] = Number(found.partitions[0].offset)
  }
  return told
}

// Asks for what else an administrator can know; each answer is true, or what was wrong.
async function operate (admin, { topic }) {
  const dirs = await admin.describeLogDirs({ topics: [{ name: topic, partitions: [0] }] })
  const listed = await admin.listTopics()
  return { 'log dirs': dirs.length > 0 && dirs[0].results.length > 0, 'list topics': listed.includes(topic) }
}

async function produce ({ topic, partition, records, codec, acks, idempotent }) {
  const messages = records.map(({ key, value, headers, timestamp }) => ({
    topic,
    partition,
    key: key == null ? undefined : Buffer.from(key),
    value: value == null ? undefined : Buffer.from(value),
    headers: new Map((headers ?? []).map(([name, one]) => [Buffer.from(name), Buffer.from(one)])),
    timestamp: timestamp && BigInt(timestamp)
  }))
  return withClient(Producer, {}, async producer => {
    const told = await producer.send({ messages, compression: codec, acks: acks === 'all' ? -1 : Number(acks), idempotent })
    const base = told.offsets?.find(one => one.partition === partition)?.offset
    return { offsets: records.map((_, number) => base == null || base < 0 ? null : Number(base) + number) }
  })()
}

// One request at a time, with what has come up meanwhile: the client has no linger of its own for send().
async function stream ({ topic, partitions, count, seconds, idempotent }) {
  const told = new Stream(count)
  await withClient(Producer, {}, async producer => {
    let waiting = []
    let ended = false
    const sender = (async () => {
      while (!ended || waiting.length) {
        const numbers = waiting
        waiting = []
        if (!numbers.length) { await sleep(5); continue }
        const messages = numbers.map(number => ({ topic, partition: number % partitions, value: Buffer.from(String(number)) }))
        try {
          const { offsets } = await producer.send({ messages, acks: -1, idempotent })
          for (const { partition, offset } of offsets) {
            const own = numbers.filter(number => number % partitions === partition)
            own.forEach((number, index) => told.done(partition, Number(offset) + index, String(number)))
          }
        } catch (error) {
          told.failed.push(described(error))
        }
      }
    })()
    await paced(count, seconds, number => waiting.push(number))
    ended = true
    await sender
  })()
  return { acked: told.acked, failed: told.failed }
}

async function fetch (consumer, topic, partition, offset) {
  const { topics } = await consumer.metadata({ topics: [topic] })
  const { id, partitions } = topics.get(topic)
  const { leader, leaderEpoch } = partitions[partition]
  const one = { partition, fetchOffset: BigInt(offset), partitionMaxBytes: 1048576, currentLeaderEpoch: leaderEpoch, lastFetchedEpoch: -1 }
  try {
    const answer = await consumer.fetch({ node: leader, topics: [{ topicId: id, partitions: [one] }], maxWaitTime: 200, minBytes: 1, maxBytes: 10485760 })
    const batches = answer.responses[0]?.partitions[0]?.records ?? []
    return batches.flatMap(batch => batch.records.map(({ offsetDelta, timestampDelta, key, value, headers }) => ({
      offset: Number(batch.firstOffset) + offsetDelta,
      timestamp: Number(batch.firstTimestamp + timestampDelta),
      key: text(key),
      value: text(value),
      headers: headers.map(([name, one]) => [text(name), text(one)])
    }))).filter(record => record.offset >= offset)
  } catch (error) {
    consumer.clearMetadata()
    await sleep(100)
    return []
  }
}

async function take (consumer, topic, partition, from, count) {
  const found = []
  for (const until = deadline(); found.length < count && Date.now() < until;) {
    const records = await fetch(consumer, topic, partition, from)
    found.push(...records)
    if (records.length) from = records.at(-1).offset + 1
  }
  return found.slice(0, count)
}

async function consume (consumer, { topic, partition, at, count }) {
  let from = at === 'earliest' ? 0 : at
  if (at.timestamp) {
    const listed = await consumer.listOffsets({ topics: [topic], partitions: { [topic]: [partition] }, timestamp: BigInt(at.timestamp) })
    from = Number(listed.get(topic)[partition])
  }
  return { records: await take(consumer, topic, partition, from, count) }
}

async function seek (consumer, { topic, partition, first, to, count }) {
  await take(consumer, topic, partition, 0, first)
  return { records: await take(consumer, topic, partition, to, count) }
}

async function tail (consumer, { topic, partition, count }) {
  const listed = await consumer.listOffsets({ topics: [topic] })
  setTimeout(() => tell({ ready: true }), 100) // a fetch waits at the end
  return { records: await take(consumer, topic, partition, Number(listed.get(topic)[partition]), count) }
}

async function follow (consumer, { topic, partitions, count }) {
  const records = []
  const values = new Set()
  const next = new Array(partitions).fill(0)
  for (const until = Date.now() + 3 * WAIT_MS; values.size < count && Date.now() < until;) {
    for (let partition = 0; partition < partitions; partition++) {
      for (const { offset, value } of await fetch(consumer, topic, partition, next[partition])) {
        records.push([partition, offset, value])
        values.add(value)
        next[partition] = offset + 1
      }
    }
  }
  return { records }
}

const groups = require('./platformatic_groups')(common)

serve({
  take: groups.take,
  share: groups.share,
  administer: withAdmin(groups.administer),
  create: withAdmin(create),
  describe: withAdmin(describe),
  cluster: withAdmin(cluster),
  configs: withAdmin(configs),
  alter_configs: withAdmin(alterConfigs),
  add_partitions: withAdmin(addPartitions),
  delete: withAdmin(deleteTopic),
  delete_records: withAdmin(deleteRecords),
  offsets: withAdmin(offsets),
  operate: withAdmin(operate),
  produce,
  stream,
  consume: withConsumer(consume),
  seek: withConsumer(seek),
  tail: withConsumer(tail),
  follow: withConsumer(follow)
})
