#include "emit/known_topics.h"

#include <string>
#include <vector>

#include "format/pattern.h"
#include "format/template.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/server_versions.h"

extern "C" {
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"
}

namespace outbox::emit {

namespace {

// All in the server's encoding: patterns and templates compare and change ASCII alone.
struct KnowingRoute {
  char* name;
  char* topic;            // template
  List* aggregate_types;  // patterns, char*
  List* event_types;
  List* known;
};

List* routes = NIL;  // of KnowingRoute*
bool read = false;   // all of them
bool stale = true;
Oid table = InvalidOid;  // outbox.route when it was read; InvalidOid: there was none
MemoryContext memory = nullptr;

void OnRelationChange(Datum, Oid relation) {
  stale = stale || relation == InvalidOid || relation == table || table == InvalidOid;
}

List* TextsOf(Datum array) {
  Datum* values = nullptr;
  bool* nulls = nullptr;
  int count = 0;
  List* texts = NIL;
  deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
  for (int i = 0; i < count; i++) {
    if (!nulls[i]) {
      texts = lappend(texts, TextDatumGetCString(values[i]));
    }
  }
  return texts;
}

// As the option was written: NIL where the route has none.
List* KnownOf(Jsonb* options) {
  constexpr const char* kName = "topics_known";
  if (!JB_ROOT_IS_OBJECT(options)) {
    return NIL;
  }
  const JsonbValue* list =
      getKeyJsonValueFromContainer(&options->root, kName, static_cast<int>(strlen(kName)), nullptr);
  if (list == nullptr || list->type != jbvBinary || !JsonContainerIsArray(list->val.binary.data)) {
    return NIL;
  }
  List* known = NIL;
  for (uint32 i = 0; i < JsonContainerSize(list->val.binary.data); i++) {
    const JsonbValue* one = getIthJsonbValueFromContainer(list->val.binary.data, i);
    if (one->type == jbvString) {
      known = lappend(known, pnstrdup(one->val.string.val, one->val.string.len));
    }
  }
  return known;
}

Datum Column(TupleTableSlot* row, const char* name, bool* null) {
  const int number = SPI_fnumber(row->tts_tupleDescriptor, name);
  *null = true;
  return number <= 0 ? static_cast<Datum>(0) : slot_getattr(row, number, null);
}

void AddRoute(TupleTableSlot* row) {
  bool null = true;
  const Datum options = Column(row, "options", &null);
  List* known = null ? NIL : KnownOf(DatumGetJsonbP(options));
  if (known == NIL) {
    return;
  }
  auto* route = static_cast<KnowingRoute*>(palloc0(sizeof(KnowingRoute)));
  route->known = known;
  const Datum name = Column(row, "name", &null);
  route->name = null ? pstrdup("") : TextDatumGetCString(name);
  const Datum topic = Column(row, "topic", &null);
  route->topic = null ? pstrdup("") : TextDatumGetCString(topic);
  const Datum aggregate_types = Column(row, "aggregate_types", &null);
  route->aggregate_types = null ? NIL : TextsOf(aggregate_types);
  const Datum event_types = Column(row, "event_types", &null);
  route->event_types = null ? NIL : TextsOf(event_types);
  routes = lappend(routes, route);
}

// Under the newest snapshot, not the transaction's: what an operator has allowed meanwhile is allowed. Does not wait:
// if the table is locked, the look is delayed and not the emit.
void ReadRoutes() {
  if (memory == nullptr) {
    memory = AllocSetContextCreate(TopMemoryContext, "outbox known topics", ALLOCSET_SMALL_SIZES);
    CacheRegisterRelcacheCallback(OnRelationChange, static_cast<Datum>(0));
  }
  routes = NIL;
  read = false;
  MemoryContextReset(memory);
  table = pg::FindOurRelation("route");
  stale = false;  // a change from here on sets it again
  if (!OidIsValid(table) || !ConditionalLockRelationOid(table, AccessShareLock)) {
    return;
  }
  Relation relation = try_table_open(table, NoLock);
  if (relation == nullptr) {
    UnlockRelationOid(table, AccessShareLock);
    return;
  }
  MemoryContext caller = MemoryContextSwitchTo(memory);
  Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = pg::BeginScan(relation, snapshot);
  TupleTableSlot* slot = table_slot_create(relation, nullptr);
  while (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
    AddRoute(slot);
  }
  ExecDropSingleTupleTableSlot(slot);
  table_endscan(scan);
  UnregisterSnapshot(snapshot);
  MemoryContextSwitchTo(caller);
  table_close(relation, AccessShareLock);
  read = true;
}

bool Matches(const List* patterns, std::string_view value) {
  for (int i = 0; i < list_length(patterns); i++) {
    if (format::GlobMatches(static_cast<const char*>(list_nth(patterns, i)), value)) {
      return true;
    }
  }
  return false;
}

std::string_view View(const text* value) {
  return value == nullptr ? std::string_view() : std::string_view(Bytes(value), Size(value));
}

// What a route's template makes of the event's names. Owns C++ objects, and calls nothing of Postgres.
std::string Expand(const char* topic, std::string_view aggregate_type, std::string_view aggregate_id,
                   std::string_view event_type) {
  format::TemplateError error;
  const auto parsed = format::Template::ParseTopic(topic, sink::kFreeTopicTemplate, &error);
  std::string name;
  if (parsed) {
    parsed->Expand(aggregate_type, aggregate_id, event_type, &name);
  }
  return name;
}

// The topic of an event without one of its own, in memory of the current context; nullptr: it cannot be told.
const char* TopicAt(const KnowingRoute* route, const NewEvent* event) {
  constexpr size_t kLongest = 4096;  // names are of 255 bytes, keys of 1000
  auto* name = static_cast<char*>(palloc(kLongest));
  try {
    const std::string topic =
        Expand(route->topic, View(event->aggregate_type), View(event->aggregate_id), View(event->event_type));
    if (topic.empty() || topic.size() >= kLongest) {
      return nullptr;
    }
    memcpy(name, topic.c_str(), topic.size() + 1);
    return name;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

[[noreturn]] void Refuse(const KnowingRoute* route, const char* topic, bool own) {
  StringInfoData known;
  initStringInfo(&known);
  for (int i = 0; i < list_length(route->known); i++) {
    appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", static_cast<char*>(list_nth(route->known, i)));
  }
  ereport(ERROR,
          (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
           errmsg("route \"%s\" does not know the topic \"%s\"", route->name, topic),
           own ? errdetail("It takes this event, and knows these topics: %s.", known.data)
               : errdetail("That is the topic which the route's template \"%s\" gives this event; it knows these: %s.",
                           route->topic, known.data),
           errhint("Is it spelt right? A topic that is new is added to the route's list: outbox.alter_route('%s', "
                   "options => ...), option topics_known.",
                   route->name)));
  pg_unreachable();
}

}  // namespace

void CheckTopicKnown(const NewEvent* event) {
  // In a transaction that has its locks already nothing else takes changes of others in.
  if (routes != NIL) {
    AcceptInvalidationMessages();
  }
  if (stale || !read) {
    ReadRoutes();
  }
  for (int i = 0; i < list_length(routes); i++) {
    const auto* route = static_cast<const KnowingRoute*>(list_nth(routes, i));
    if (!Matches(route->aggregate_types, View(event->aggregate_type)) ||
        !Matches(route->event_types, View(event->event_type))) {
      continue;
    }
    const char* topic = event->topic != nullptr ? text_to_cstring(event->topic) : TopicAt(route, event);
    if (topic != nullptr && !Matches(route->known, topic)) {
      Refuse(route, topic, event->topic != nullptr);
    }
  }
}

}  // namespace outbox::emit

// After each change of outbox.route: sessions read it again.
OUTBOX_FUNCTION(outbox_routes_changed) {
  const Oid changed = RelationGetRelid(outbox::pg::TriggerOf(fcinfo, "outbox_internal.routes_changed()")->tg_relation);
  outbox::pg::Guard([changed] { CacheInvalidateRelcacheByRelid(changed); });
  return Datum{0};
}
