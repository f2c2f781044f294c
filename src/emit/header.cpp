#include "emit/header.h"

namespace outbox::emit {

namespace {

JsonbValue String(std::string_view bytes) {
  JsonbValue string;
  string.type = jbvString;
  string.val.string.val = const_cast<char*>(bytes.data());
  string.val.string.len = static_cast<int>(bytes.size());
  return string;
}

const JsonbValue* Find(const NewEvent* event, const char* name) {
  if (event->headers == nullptr || !JB_ROOT_IS_OBJECT(event->headers)) {
    return nullptr;
  }
  return getKeyJsonValueFromContainer(&event->headers->root, name, static_cast<int>(strlen(name)), nullptr);
}

}  // namespace

void HeaderObject::Add(std::string_view name, std::string_view value) {
  if (!any_) {
    parts_.Push(WJB_BEGIN_OBJECT);
    any_ = true;
  }
  JsonbValue of_name = String(name);
  JsonbValue of_value = String(value);
  parts_.Push(WJB_KEY, &of_name);
  parts_.Push(WJB_VALUE, &of_value);
}

Jsonb* HeaderObject::Finish() {
  if (!any_) {
    return nullptr;
  }
  parts_.Push(WJB_END_OBJECT);
  return parts_.Whole();
}

void AddHeader(NewEvent* event, const char* name, const char* value, Wins wins) {
  // What is no object is refused by its check, as the caller gave it.
  if (event->headers != nullptr && !JB_ROOT_IS_OBJECT(event->headers)) {
    return;
  }
  HeaderObject added;
  added.Add(name, value);
  Datum ours = JsonbPGetDatum(added.Finish());
  if (event->headers != nullptr) {
    const Datum theirs = JsonbPGetDatum(event->headers);
    ours = wins == Wins::kCaller ? DirectFunctionCall2(jsonb_concat, ours, theirs)
                                 : DirectFunctionCall2(jsonb_concat, theirs, ours);
  }
  event->headers = DatumGetJsonbP(ours);
}

void RemoveHeader(NewEvent* event, const char* name) {
  event->headers =
      DatumGetJsonbP(DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(event->headers), CStringGetTextDatum(name)));
  if (JB_ROOT_COUNT(event->headers) == 0) {
    event->headers = nullptr;
  }
}

bool HasHeader(const NewEvent* event, const char* name) {
  return Find(event, name) != nullptr;
}

const char* HeaderOf(const NewEvent* event, const char* name) {
  const JsonbValue* value = Find(event, name);
  return value != nullptr && value->type == jbvString ? pnstrdup(value->val.string.val, value->val.string.len)
                                                      : nullptr;
}

size_t HeaderBytes(const NewEvent* event) {
  if (event->headers == nullptr || !JB_ROOT_IS_OBJECT(event->headers)) {
    return 0;
  }
  size_t bytes = 0;
  JsonbValue item;
  JsonbIterator* iterator = JsonbIteratorInit(&event->headers->root);
  JsonbIteratorToken token = JsonbIteratorNext(&iterator, &item, false);
  while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE) {
    const size_t size = item.type == jbvString ? item.val.string.len : 0;
    bytes += token == WJB_KEY ? HeaderSize(size, 0) : token == WJB_VALUE ? size : 0;
  }
  return bytes;
}

void CheckDataschema(const char* uri, size_t size) {
  const char* bad = size == 0 ? "It is empty." : size > 2000 ? "It is longer than 2000 bytes." : nullptr;
  for (size_t i = 0; i < size && bad == nullptr; i++) {
    const auto c = static_cast<unsigned char>(uri[i]);
    if (c <= 0x20 || c > 0x7e || strchr("\"<>\\^`{|}", c) != nullptr) {
      bad = "It holds a character that has no place in a URI.";
    }
  }
  if (bad != nullptr) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid dataschema"), errdetail("%s", bad),
                    errhint("Pass the URI of the payload's schema, such as 'https://schemas.example.com/order/2'.")));
  }
}

void RefuseSchemaVersion(const char* what) {
  ereport(ERROR,
          (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid schema_version"), errdetail("It is %s.", what),
           errhint("Pass a whole number from 0 on; a version of another form goes into the headers.")));
}

void AddSchemaHeaders(NewEvent* event) {
  if (event->versioned) {
    if (event->schema_version < 0) {
      RefuseSchemaVersion(psprintf("%d", event->schema_version));
    }
    AddHeader(event, "schema_version", psprintf("%d", event->schema_version), Wins::kOurs);
  }
  if (event->dataschema != nullptr) {
    CheckDataschema(Bytes(event->dataschema), Size(event->dataschema));
    AddHeader(event, "dataschema", text_to_cstring(event->dataschema), Wins::kOurs);
  }
}

}  // namespace outbox::emit
