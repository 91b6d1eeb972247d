// The driver of kafkajs. It consumes only as a member of a group; here its own class for the requests to a broker
// fetches instead, so that a fetch of this client is seen, too.
'use strict'

const zlib = require('node:zlib')
const kafkajs = require('kafkajs')
const lz4 = require('lz4-napi')
const snappy = require('snappy')
const { WAIT_MS, NotOffered, Stream, deadline, described, paced, serve, sleep, tell, text } = require('./serve')

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = kafkajs
const IS_1 = require('kafkajs/package.json').version.startsWith('1.')
const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00])
const TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}

// kafkajs brings gzip; the others are given to it, as its users do.
CompressionCodecs[CompressionTypes.Snappy] = () => ({ compress: encoder => snappy.compress(encoder.buffer), decompress: unsnap })
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zlib.zstdCompressSync(encoder.buffer),
  decompress: async buffer => zlib.zstdDecompressSync(buffer)
})

// Java's framing around snappy, or snappy alone.
async function unsnap (buffer) {
  if (!buffer.subarray(0, 8).equals(XERIAL)) return snappy.uncompress(buffer)
  const parts = []
  for (let at = 16; at < buffer.length;) {
    const size = buffer.readUInt32BE(at)
    parts.push(await snappy.uncompress(buffer.subarray(at + 4, at + 4 + size)))
    at += 4 + size
  }
  return Buffer.concat(parts)
}

const kafka = new Kafka({
  clientId: 'interop',
  brokers: process.argv[2].split(','),
  logLevel: logLevel.NOTHING,
  retry: { retries: 30, initialRetryTime: 100, maxRetryTime: 500 }
})

const withAdmin = work => async question => {
  const admin = kafka.admin({ retry: { retries: 5 } })
  await admin.connect()
  try {
    return await work(admin, question)
  } finally {
    await admin.disconnect()
  }
}

async function create (admin, { topic, partitions, replicas, configs }) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  const one = { topic, numPartitions: partitions, replicationFactor: replicas, configEntries }
  if (!await admin.createTopics({ topics: [one], waitForLeaders: false })) throw new Error('the topic exists')
}

async function describe (admin, { topic }) {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  const partitions = topics[0].partitions.sort((a, b) => a.partitionId - b.partitionId)
  return { partitions: partitions.map(({ leader, replicas, isr }) => ({ leader, replicas, isr })) }
}

async function cluster (admin) {
  const { brokers, clusterId } = await admin.describeCluster()
  const nodes = Object.fromEntries(brokers.map(({ nodeId, host, port }) => [nodeId, `${host}:${port}`]))
  return { cluster_id: clusterId, nodes }
}

async function configs (admin, { topic }) {
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }]
  const answer = await admin.describeConfigs({ resources, includeSynonyms: false })
  const entries = answer.resources[0].configEntries
  return { configs: Object.fromEntries(entries.map(({ configName, configValue }) => [configName, configValue])) }
}

async function alterConfigs (admin, { topic, configs }) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }]
  await admin.alterConfigs({ validateOnly: false, resources })
}

const addPartitions = (admin, { topic, count }) => admin.createPartitions({ topicPartitions: [{ topic, count }] }).then(() => ({}))
const deleteTopic = (admin, { topic }) => admin.deleteTopics({ topics: [topic] })

async function deleteRecords (admin, { topic, partition, before }) {
  await admin.fetchTopicOffsets(topic) // the client deletes only in a topic whose leaders it has heard of
  await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
}

async function offsets (admin, { topic, partition, timestamp }) {
  const of = list => Number(list.find(one => one.partition === partition).offset)
  const [ends] = (await admin.fetchTopicOffsets(topic)).filter(one => one.partition === partition)
  const atTimestamp = of(await admin.fetchTopicOffsetsByTimestamp(topic, timestamp))
  return { earliest: Number(ends.low), latest: Number(ends.high), at_timestamp: atTimestamp }
}

// Asks for what else an administrator can know; each answer is true, or what was wrong.
async function operate (admin, { topic }) {
  const { topics } = await admin.listPartitionReassignments({ topics: [{ topic, partitions: [0] }] })
  return { reassignments: topics.length === 0, 'list topics': (await admin.listTopics()).includes(topic) }
}

async function produce ({ topic, partition, records, codec, acks, idempotent }) {
  const producer = kafka.producer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined })
  await producer.connect()
  const messages = records.map(({ key, value, headers, timestamp }) => {
    const together = {}
    for (const [name, text] of headers ?? []) together[name] = name in together ? [together[name], text].flat() : text
    if (IS_1 && Object.values(together).some(Array.isArray)) throw new NotOffered('this version has no repeated headers')
    return { key, value, partition, headers: together, timestamp: timestamp && String(timestamp) }
  })
  const [told] = await producer.send({ topic, messages, acks: acks === 'all' ? -1 : Number(acks), compression: TYPES[codec] })
  await producer.disconnect()
  return { offsets: records.map((_, number) => told?.baseOffset == null ? null : Number(told.baseOffset) + number) }
}

// kafkajs has no linger: each turn sends what has come up meanwhile, a partition at a time. A send to several is done
// for kafkajs once each broker has answered: what moves to one that has answered before is lost, and counts as sent.
async function stream ({ topic, partitions, count, seconds, idempotent }) {
  const producer = kafka.producer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined })
  await producer.connect()
  const told = new Stream(count)
  const waiting = Array.from({ length: partitions }, () => [])
  let ended = false

  async function sendAll (partition) {
    while (!ended || waiting[partition].length) {
      const numbers = waiting[partition].splice(0)
      if (!numbers.length) { await sleep(5); continue }
      try {
        const messages = numbers.map(number => ({ value: String(number), partition }))
        const [{ baseOffset }] = await producer.send({ topic, messages, acks: -1 })
        numbers.forEach((number, index) => told.done(partition, Number(baseOffset) + index, String(number)))
      } catch (error) {
        told.failed.push(described(error))
      }
    }
  }

  const senders = waiting.map((_, partition) => sendAll(partition))
  await paced(count, seconds, number => waiting[number % partitions].push(number))
  ended = true
  await Promise.all(senders)
  await producer.disconnect()
  return { acked: told.acked, failed: told.failed }
}

// Fetches one partition after the other, with the client's own requests and its own way to find a leader.
class Reader {
  constructor (topic) {
    this.topic = topic
    this.admin = kafka.admin()
  }

  async open () {
    const Cluster = require('kafkajs/src/cluster')
    const createLogger = require('kafkajs/src/loggers').createLogger
    const socketFactory = require('kafkajs/src/network/socketFactory')
    const logger = createLogger({ level: logLevel.NOTHING, logCreator: () => () => {} })
    this.cluster = new Cluster({
      logger, socketFactory: socketFactory(), brokers: () => process.argv[2].split(','), clientId: 'interop',
      connectionTimeout: 1000, metadataMaxAge: 300000, retry: { retries: 5 }, allowAutoTopicCreation: false
    })
    await this.cluster.connect()
    await this.cluster.addTargetTopic(this.topic)
    return this
  }

  async fetch (partition, fetchOffset) {
    try {
      const leaders = this.cluster.findLeaderForPartitions(this.topic, [partition])
      const broker = await this.cluster.findBroker({ nodeId: Object.keys(leaders)[0] })
      const partitions = [{ partition, fetchOffset: String(fetchOffset), maxBytes: 1048576, currentLeaderEpoch: -1 }]
      const answer = await broker.fetch({ maxWaitTime: 200, minBytes: 1, topics: [{ topic: this.topic, partitions }], isolationLevel: 1 })
      return answer.responses[0].partitions[0].messages.filter(({ offset }) => Number(offset) >= fetchOffset)
    } catch (error) {
      if (!error.retriable && error.name !== 'KafkaJSConnectionError' && error.name !== 'KafkaJSBrokerNotFound' &&
          error.name !== 'KafkaJSConnectionClosedError') throw error
      await sleep(100)
      await this.cluster.refreshMetadata().catch(() => {})
      return []
    }
  }

  async take (partition, from, count) {
    const found = []
    for (const until = deadline(); found.length < count && Date.now() < until;) {
      const messages = await this.fetch(partition, from)
      found.push(...messages)
      if (messages.length) from = Number(messages.at(-1).offset) + 1
    }
    return found.slice(0, count).map(({ offset, timestamp, key, value, headers }) => ({
      offset: Number(offset),
      timestamp: Number(timestamp),
      key: text(key),
      value: text(value),
      headers: Object.entries(headers).flatMap(([name, values]) => [values].flat().map(one => [name, text(one)]))
    }))
  }

  close () {
    return this.cluster.disconnect()
  }
}

const withReader = work => async question => {
  const reader = await new Reader(question.topic).open()
  try {
    return await work(reader, question)
  } finally {
    await reader.close()
  }
}

async function consume (reader, { topic, partition, at, count }) {
  let from = at === 'earliest' ? 0 : at
  if (at.timestamp) from = (await withAdmin(offsets)({ topic, partition, timestamp: at.timestamp })).at_timestamp
  return { records: await reader.take(partition, from, count) }
}

async function seek (reader, { partition, first, to, count }) {
  await reader.take(partition, 0, first)
  return { records: await reader.take(partition, to, count) }
}

async function tail (reader, { topic, partition, count }) {
  const { latest } = await withAdmin(offsets)({ topic, partition, timestamp: 0 })
  setTimeout(() => tell({ ready: true }), 100) // a fetch waits at the end
  return { records: await reader.take(partition, latest, count) }
}

async function follow (reader, { partitions, count }) {
  const records = []
  const values = new Set()
  const next = new Array(partitions).fill(0)
  for (const until = Date.now() + 3 * WAIT_MS; values.size < count && Date.now() < until;) {
    for (let partition = 0; partition < partitions; partition++) {
      for (const { offset, value } of await reader.fetch(partition, next[partition])) {
        records.push([partition, Number(offset), text(value)])
        values.add(text(value))
        next[partition] = Number(offset) + 1
      }
    }
  }
  return { records }
}

const groups = require('./kafkajs_groups')(kafka)

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
  consume: withReader(consume),
  seek: withReader(seek),
  tail: withReader(tail),
  follow: withReader(follow)
})
