// @langchain/qdrant and @qdrant/js-client-rest against a cell: node clients.mjs URL
// Each check prints one line; the exit status tells. Run by test_js.py.
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {QdrantVectorStore} from '@langchain/qdrant';
import {Document} from '@langchain/core/documents';
import {Embeddings} from '@langchain/core/embeddings';
import {QdrantClient} from '@qdrant/js-client-rest';

const url = process.argv[2];

class Fake extends Embeddings { // the same text, the same unit vector
    async embedQuery(text) {
        const raw = createHash('sha256').update(text).digest().subarray(0, 8);
        const v = [...raw].map((x) => (x - 127.5) / 127.5);
        const n = Math.hypot(...v);
        return v.map((x) => x / n);
    }
    async embedDocuments(texts) { return Promise.all(texts.map((t) => this.embedQuery(t))); }
}
const fake = new Fake({});
const texts = ['alpha one', 'beta two', 'gamma three', 'delta four'];
const metas = texts.map((_, i) => ({page: i, lang: i % 2 ? 'de' : 'en'}));
const client = new QdrantClient({url});
let failed = 0;
async function check(name, fn) {
    try { await fn(); console.log('ok', name); }
    catch (e) { failed++; console.log('FAILED', name, e.stack, JSON.stringify(e.data ?? null)); }
}

await check('langchain: fromTexts, similaritySearch, filter', async () => {
    const s = await QdrantVectorStore.fromTexts(texts, metas, fake, {url, collectionName: 'lcjs'});
    const [d] = await s.similaritySearch('beta two', 1);
    assert.equal(d.pageContent, 'beta two');
    assert.equal(d.metadata.page, 1);
    const scored = await s.similaritySearchWithScore('beta two', 4);
    assert.ok(scored[0][1] > 0.999 && scored.length === 4);
    const filter = {must: [{key: 'metadata.lang', match: {value: 'en'}}]};
    const en = await s.similaritySearch('beta two', 4, filter);
    assert.deepEqual(en.map((x) => x.metadata.lang), ['en', 'en']);
});
await check('langchain: maxMarginalRelevanceSearch with and without lambda', async () => {
    const s = await QdrantVectorStore.fromExistingCollection(fake, {url, collectionName: 'lcjs'});
    const a = await s.maxMarginalRelevanceSearch('beta two', {k: 2, fetchK: 4, lambda: 0.5});
    const b = await s.maxMarginalRelevanceSearch('beta two', {k: 2});
    assert.equal(a[0].pageContent, 'beta two');
    assert.equal(b.length, 2);
});
await check('langchain: addDocuments with ids and customPayload, delete', async () => {
    const s = await QdrantVectorStore.fromExistingCollection(fake, {url, collectionName: 'lcjs'});
    const id = '00000000-0000-0000-0000-000000000009';
    await s.addDocuments([new Document({pageContent: 'extra', metadata: {a: 1}, id})], {customPayload: [{z: 1}]});
    assert.equal((await s.similaritySearch('extra', 1))[0].pageContent, 'extra');
    const p = (await client.scroll('lcjs', {filter: {must: [{key: 'metadata.a', match: {value: 1}}]}})).points;
    assert.equal(p.length, 1);
    await s.delete({ids: [p[0].id]});
    await s.delete({filter: {must: [{key: 'metadata.page', match: {value: 3}}]}});
    assert.equal((await client.count('lcjs')).count, 3);
});
await check('langchain: collectionConfig; an error carries status and message', async () => {
    const s = await QdrantVectorStore.fromTexts(['q'], [{}], fake, {url, collectionName: 'lccfg',
        collectionConfig: {vectors: {size: 8, distance: 'Dot'}}});
    assert.equal((await client.getCollection('lccfg')).config.params.vectors.distance, 'Dot');
    await assert.rejects(s.addVectors([[1, 2]], [new Document({pageContent: 'x', metadata: {}})]),
        /400.*expected dim: 8, got 2/s);
});
await check('client: collections, points, queries', async () => {
    assert.equal((await client.versionInfo()).version, '1.19.0');
    await client.createCollection('js', {vectors: {size: 4, distance: 'Cosine'}});
    assert.equal((await client.collectionExists('js')).exists, true);
    await client.upsert('js', {wait: true, points: [
        {id: 1, vector: [1, 0, 0, 0], payload: {i: 1, g: 'a'}},
        {id: 2, vector: [0.8, 0.6, 0, 0], payload: {i: 2, g: 'a'}},
        {id: 3, vector: [0, 1, 0, 0], payload: {i: 3, g: 'b'}}]});
    await client.upsert('js', {wait: true, batch: {ids: [4], vectors: [[0, 0, 1, 0]], payloads: [{i: 4, g: 'b'}]}});
    assert.equal((await client.count('js')).count, 4);
    const r = await client.query('js', {query: [1, 0, 0, 0], limit: 2, with_payload: true, filter: null});
    assert.deepEqual(r.points.map((p) => p.id), [1, 2]);
    const b = await client.queryBatch('js', {searches: [{query: [0, 1, 0, 0], limit: 1}, {query: 1, limit: 1}]});
    assert.deepEqual(b.map((x) => x.points[0].id), [3, 2]);
    const g = await client.queryGroups('js', {query: [1, 0, 0, 0], group_by: 'g', group_size: 1, limit: 2});
    assert.deepEqual(g.groups.map((x) => x.id), ['a', 'b']);
    const f = await client.query('js', {prefetch: [{query: [1, 0, 0, 0], limit: 2}, {query: [0, 1, 0, 0], limit: 2}],
        query: {fusion: 'rrf'}});
    assert.equal(f.points[0].id, 2);
    assert.equal((await client.search('js', {vector: [1, 0, 0, 0], limit: 1}))[0].id, 1);
    assert.equal((await client.recommend('js', {positive: [1], limit: 1}))[0].id, 2);
});
await check('client: payload calls, index, facet, aliases, errors', async () => {
    await client.setPayload('js', {payload: {k: 1}, points: [1]});
    await client.overwritePayload('js', {payload: {only: 1}, points: [2]});
    await client.deletePayload('js', {keys: ['k'], points: [1]});
    await client.clearPayload('js', {points: [3]});
    await client.updateVectors('js', {points: [{id: 4, vector: [1, 0, 0, 0]}]});
    const got = await client.retrieve('js', {ids: [1, 2, 3]});
    assert.deepEqual(got.map((p) => p.payload), [{i: 1, g: 'a'}, {only: 1}, {}]);
    await client.createPayloadIndex('js', {field_name: 'g', field_schema: 'keyword', wait: true});
    assert.deepEqual((await client.facet('js', {key: 'g'})).hits, [{value: 'a', count: 1}, {value: 'b', count: 1}]);
    await client.updateCollectionAliases({actions: [{create_alias: {collection_name: 'js', alias_name: 'jsal'}}]});
    assert.equal((await client.count('jsal')).count, 4);
    await client.batchUpdate('js', {operations: [{upsert: {points: [{id: 9, vector: [1, 0, 0, 0]}]}}, {delete: {points: [9]}}]});
    await assert.rejects(client.getCollection('nowhere'), (e) => e.status === 404 &&
        e.data.status.error === "Not found: Collection `nowhere` doesn't exist!");
    for (const name of ['js', 'lcjs', 'lccfg']) await client.deleteCollection(name);
});
process.exit(failed ? 1 : 0);
