#include "emit/known_topics.h"

#include <string>

#include "format/format.h"
#include "format/pattern.h"
#include "format/template.h"
#include "pg/cached_table.h"

extern "C" {
#include "executor/spi.h"
}

namespace outbox::emit {

namespace {

// A route that has something to say. All in the server's encoding: patterns, templates and names of headers compare and
// change ASCII alone.
struct AskedRoute {
  char* name;
  char* topic;  // template
  char* format;
  List* aggregate_types;  // patterns, char*
  List* event_types;
  List* known;  // topics; NIL: all are
  List* taken;  // names of headers, of char*: behind '=' a name, '~' one of any case, '^' the beginning of names
};

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

// Names of headers that the format has for itself, each as AskedRoute::taken has it and with its end, as far as there
// is room. Owns C++ objects, and calls nothing of Postgres.
size_t NamesTaken(const char* format_name, const char* const* options, int count, char* out, size_t room) {
  size_t size = 0;
  try {
    const format::Format* format = format::FindFormat(format_name);
    if (format == nullptr || format->taken == nullptr) {
      return 0;
    }
    sink::OptionList list;
    for (int i = 0; i < count; i++) {
      list.emplace_back(options[2 * i], options[2 * i + 1]);
    }
    for (const format::TakenName& taken : format->taken(list)) {
      const std::string name = (taken.begins ? '^' : taken.any_case ? '~' : '=') + taken.name;
      if (size + name.size() + 1 > room) {
        break;
      }
      memcpy(out + size, name.c_str(), name.size() + 1);
      size += name.size() + 1;
    }
  } catch (const std::bad_alloc&) {
    return 0;  // the route refuses it then
  }
  return size;
}

List* TakenOf(const char* format, Jsonb* options) {
  constexpr size_t kRoom = 16 * 1024;
  const int count = options != nullptr && JB_ROOT_IS_OBJECT(options) ? static_cast<int>(JB_ROOT_COUNT(options)) : 0;
  auto** texts = static_cast<const char**>(palloc0((2 * count + 1) * sizeof(char*)));
  int used = 0;
  JsonbIterator* iterator = count > 0 ? JsonbIteratorInit(&options->root) : nullptr;
  JsonbValue item;
  JsonbIteratorToken token;
  while (iterator != nullptr && (token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE) {
    if (token == WJB_KEY) {
      texts[2 * used] = pnstrdup(item.val.string.val, item.val.string.len);
    } else if (token == WJB_VALUE && item.type == jbvString) {
      texts[2 * used++ + 1] = pnstrdup(item.val.string.val, item.val.string.len);
    }
  }
  auto* names = static_cast<char*>(palloc(kRoom));
  const size_t size = NamesTaken(format, texts, used, names, kRoom);
  List* taken = NIL;
  for (size_t at = 0; at < size; at += strlen(names + at) + 1) {
    taken = lappend(taken, pstrdup(names + at));
  }
  pfree(names);
  return taken;
}

Datum Column(TupleTableSlot* row, const char* name, bool* null) {
  const int number = SPI_fnumber(row->tts_tupleDescriptor, name);
  *null = true;
  return number <= 0 ? static_cast<Datum>(0) : slot_getattr(row, number, null);
}

void* KeepRoute(TupleTableSlot* row) {
  bool null = true;
  const Datum format = Column(row, "format", &null);
  char* format_name = null ? pstrdup("") : TextDatumGetCString(format);
  const Datum options = Column(row, "options", &null);
  Jsonb* object = null ? nullptr : DatumGetJsonbP(options);
  List* known = object == nullptr ? NIL : KnownOf(object);
  List* taken = TakenOf(format_name, object);
  if (known == NIL && taken == NIL) {
    return nullptr;
  }
  auto* route = static_cast<AskedRoute*>(palloc0(sizeof(AskedRoute)));
  route->known = known;
  route->taken = taken;
  route->format = format_name;
  const Datum name = Column(row, "name", &null);
  route->name = null ? pstrdup("") : TextDatumGetCString(name);
  const Datum topic = Column(row, "topic", &null);
  route->topic = null ? pstrdup("") : TextDatumGetCString(topic);
  const Datum aggregate_types = Column(row, "aggregate_types", &null);
  route->aggregate_types = null ? NIL : pg::TextsOf(aggregate_types);
  const Datum event_types = Column(row, "event_types", &null);
  route->event_types = null ? NIL : pg::TextsOf(event_types);
  return route;
}

pg::CachedTable routes("route", KeepRoute, pg::IfLocked::kGoOn);

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
const char* TopicAt(const AskedRoute* route, const NewEvent* event) {
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

[[noreturn]] void RefuseTopic(const AskedRoute* route, const char* topic, bool own) {
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
           errhint("Is it spelt right? The owner of the extension adds a topic that is new to the route's list: "
                   "outbox.alter_route('%s', options => ...), option topics_known.",
                   route->name)));
  pg_unreachable();
}

bool Takes(const AskedRoute* route, const NewEvent* event, const char* only = nullptr) {
  return (only == nullptr || strcmp(only, route->name) == 0) &&
         Matches(route->aggregate_types, View(event->aggregate_type)) &&
         Matches(route->event_types, View(event->event_type));
}

bool IsTaken(const AskedRoute* route, const char* name) {
  for (int i = 0; i < list_length(route->taken); i++) {
    const auto* one = static_cast<const char*>(list_nth(route->taken, i));
    if (*one == '^'   ? pg_strncasecmp(one + 1, name, strlen(one + 1)) == 0
        : *one == '~' ? pg_strcasecmp(one + 1, name) == 0
                      : strcmp(one + 1, name) == 0) {
      return true;
    }
  }
  return false;
}

[[noreturn]] void RefuseHeader(const AskedRoute* route, const char* name) {
  ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("header name \"%s\" is taken", name),
                  errdetail("Route \"%s\" takes this event, and its records have a header of that name themselves, as "
                            "the route's format \"%s\" and options say.",
                            route->name, route->format),
                  errhint("Give the header another name. Columns dataschema and schema_version, and what "
                          "outbox.event_schema() has registered, are headers of these names, too.")));
  pg_unreachable();
}

void CheckHeadersFree(const AskedRoute* route, Jsonb* headers) {
  JsonbIterator* iterator = JsonbIteratorInit(&headers->root);
  JsonbValue item;
  JsonbIteratorToken token;
  while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE) {
    if (token == WJB_KEY) {
      const char* name = pnstrdup(item.val.string.val, item.val.string.len);
      if (IsTaken(route, name)) {
        RefuseHeader(route, name);
      }
    }
  }
}

}  // namespace

void CheckTopicWithRoutes(const NewEvent* event, const char* only) {
  const List* asked = routes.Rows();
  for (int i = 0; i < list_length(asked); i++) {
    const auto* route = static_cast<const AskedRoute*>(list_nth(asked, i));
    if (route->known == NIL || !Takes(route, event, only)) {
      continue;
    }
    const char* topic = event->topic != nullptr ? text_to_cstring(event->topic) : TopicAt(route, event);
    if (topic != nullptr && !Matches(route->known, topic)) {
      RefuseTopic(route, topic, event->topic != nullptr);
    }
  }
}

void CheckHeadersWithRoutes(const NewEvent* event, const char* only) {
  const List* asked = event->headers != nullptr ? routes.Rows() : NIL;
  for (int i = 0; i < list_length(asked); i++) {
    const auto* route = static_cast<const AskedRoute*>(list_nth(asked, i));
    if (route->taken != NIL && Takes(route, event, only)) {
      CheckHeadersFree(route, event->headers);
    }
  }
}

bool HeaderIsTaken(const NewEvent* event, const char* name) {
  const List* asked = IsInParallelMode() ? NIL : routes.Rows();
  for (int i = 0; i < list_length(asked); i++) {
    const auto* route = static_cast<const AskedRoute*>(list_nth(asked, i));
    if (IsTaken(route, name) && Takes(route, event)) {
      return true;
    }
  }
  return false;
}

}  // namespace outbox::emit
