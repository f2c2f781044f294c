// Formats [-]: how an event becomes a record. One entry each, in the table of formats.cpp; no code outside of a
// format's own files tests which format it deals with. README.md in this folder says how to add one.
//
// RecordFormat does what all have in common: the topic, the key of the route's template, the time. The encoder of the
// route's format does the rest.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/event.h"
#include "base/status.h"
#include "sink/kind.h"
#include "sink/record.h"

namespace outbox::format {

// Makes the records of one lane; not shared between threads. May keep scratch memory, which should stay between events:
// encoding allocates nothing in the long run.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Completes *record. Set are the topic, the time, the form, the key (of the route's template) and, as the body, the
  // payload; there are no fields. All of it may be changed but the topic and the form. What it is made of lives until
  // the next call: in the event, in the encoder, in static memory. False, and *error filled (class kMessage, and a code
  // of README.md), if the event cannot be carried: it becomes a dead letter.
  virtual bool Encode(const Event& event, sink::Record* record, Error* error) = 0;
};

// What a format is asked for: the destination's kind, what its commands are, and the options of the route (its own, the
// kind's, and those of all routes), checked.
struct Use {
  const sink::SinkKind* kind = &sink::kUnknownKind;
  sink::RecordForm form = sink::RecordForm::kStream;
  const sink::OptionList* options = nullptr;
  std::string_view source;  // of all routes: where events come from, a URI reference

  std::string_view Option(std::string_view name) const { return sink::RouteOptionValue(*options, name); }
};

// Headers that the records of a route have for themselves.
struct TakenName {
  std::string name;
  bool begins = false;    // any name that begins so, whatever its case
  bool any_case = false;  // that name, whatever its case
};

struct Format {
  const char* name;                                 // value of outbox.route.format
  std::span<const sink::RouteOption> options = {};  // of routes with this format
  // The names that an event's own headers cannot have on a route with these options: emit() refuses it, and Encode()
  // does (HEADER_NAME_TAKEN). nullptr: there are none but those that no event can have (header_name.h).
  std::vector<TakenName> (*taken)(const sink::OptionList& options) = nullptr;
  // Why there can be no such route: of that kind, in that form, with these options together (each was checked alone).
  // SQLSTATE 22023 or 0A000. nullptr: there is nothing to check.
  sink::OptionProblem (*check)(const Use& use) = nullptr;
  std::unique_ptr<Encoder> (*make)(const Use& use);
};

// What create_route() takes where nothing is said.
extern const Format kOutboxFormat;

// All formats, in the order in which messages list them.
std::span<const Format* const> Formats();
// nullptr: there is none of that name.
const Format* FindFormat(std::string_view name);
// "a, b or c".
std::string FormatNames();
// Of a name that there is not: 22023, with what may have been meant.
sink::OptionProblem UnknownFormat(std::string_view name);

// An option of routes (of a kind or of a format) of that name; nullptr: neither has it.
const sink::RouteOption* FindRouteOption(const sink::SinkKind& kind, const Format& format, std::string_view name);
// Whether a header of that name is among them.
bool IsTaken(const TakenName& taken, std::string_view name);
// One option, alone: 22023 if its value is wrong.
sink::OptionProblem CheckRouteOption(const sink::RouteOption& option, std::string_view value);

}  // namespace outbox::format
