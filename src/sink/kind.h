// Kinds of destinations [-]: all that the rest of outbox has to know of one. No file outside of a kind's folder tests
// which kind it deals with; it uses the kind's entry. README.md in this folder says how to add one.
//
// One folder per kind, src/sink/<kind>. Its kind.cpp (and options.cpp) is compiled into outbox.so and into every
// program and includes no client library. With a main.cpp the kind is a program of its own, and the rest of the folder
// goes into that; without one the whole folder goes into outbox.so.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sink/options.h"
#include "sink/record.h"
#include "sink/sink.h"

namespace outbox::sink {

// What the topic template of a route may contain. The texts are for its author.
struct TopicTemplateRules {
  bool aggregate_id;                                // whether it may contain {aggregate_id}; if not:
  const char* no_aggregate_id;                      // the message
  const char* no_aggregate_id_hint;                 // and its hint, a sentence
  bool (*literal)(char c);                          // whether its own text may contain the character
  const char* literals;                             // which characters it may contain, a sentence
  const char* (*bad_name)(std::string_view topic);  // what is wrong with a name that it gives, see base/topic_name.h
  const char* names;                                // which names are good, a sentence
};

// Allows any text that is a name at all (BadFreeTopic), with {aggregate_id}.
extern const TopicTemplateRules kFreeTopicTemplate;
// The strictest rules, as Kafka needs them (BadPortableTopic), without {aggregate_id}.
extern const TopicTemplateRules kPortableTopicTemplate;

// An option of a route: of its kind of destination, or of its format (format/format.h). For those of a server see
// OptionRule.
struct RouteOption {
  const char* name;
  const char* choices = nullptr;  // separated by |; with true among them JSON's true and false are taken, too
  // Any text, if there are no choices and this finds no problem with it. nullptr: any text that is not empty.
  OptionProblem (*check)(std::string_view value) = nullptr;
};

// The value of an option of a route; data() == nullptr: it has none.
std::string_view RouteOptionValue(const OptionList& options, std::string_view name);

// An option without which the destination cannot be found.
struct RequiredOption {
  const char* name = nullptr;  // nullptr: there is none
  const char* why = nullptr;   // a sentence
  const char* example = nullptr;
};

// Takes one line of the server log, without its end. Must not throw.
using WriteLine = std::function<void(std::string_view line)>;

struct SinkKind {
  // --- what it is called ---
  const char* wrapper;  // foreign-data wrapper of its servers
  const char* title;    // within a sentence

  // --- its sink: one of the two ---
  const char* program = nullptr;  // executable beside outbox.so, made from the main.cpp of its folder
  std::unique_ptr<Sink> (*make)(const Options& options, WriteLine write_line) = nullptr;  // in the relay worker

  // --- its servers ---
  std::span<const OptionRule> (*options)();
  const char* options_hint = nullptr;  // instead of all their names, where they are too many for a hint
  std::span<const ForeignOption> foreign_options = {};
  RequiredOption required = {};
  // Checks options against each other: within one list, and a server's and a mapping's together. nullptr: no such
  // checks.
  OptionProblem (*check_together)(const Options& options) = nullptr;
  OptionProblem (*check_merged)(const Options& options) = nullptr;

  // --- its routes ---
  std::span<const RouteOption> route_options = {};
  const char* route_options_hint = nullptr;  // which there are, a sentence; nullptr: there are none
  RecordForm (*form)(const OptionList& route_options) = nullptr;   // nullptr: there is only one form
  const TopicTemplateRules* topic_template = &kFreeTopicTemplate;  // as it is written
  const char* (*bad_topic)(std::string_view topic) = nullptr;      // for an event that is to be sent; always set

  // --- its records ---
  const char* content_type_name = "content-type";  // the field that tells the content type
  const char* header_prefix = "";                  // put before the names of the user's headers
  bool has_fields[3] = {true, true, true};         // by RecordForm: whether a record has more than a body
  bool needs_field = false;  // whether a record of form kStream without key, body and fields is none

  // --- its requests ---
  // Under load records are gathered for at most this many microseconds, because a request costs the server much more
  // than a record in it does. 250: hardly more.
  int64_t gather_micros = 250;

  // --- its servers' memory ---
  // Set if a server may come back without what it had acknowledged, and its runs can be told apart: then each run is
  // checked before anything is written to it (see ServerIdentity in sink.h). Returns whether what was lost is sent
  // again. nullptr: no check.
  bool (*resends_lost)(const Options& options) = nullptr;
};

// All kinds, in the order in which messages list them.
std::span<const SinkKind* const> Kinds();
// The only place where a foreign-data wrapper becomes a kind. nullptr: the wrapper is not one of outbox's.
const SinkKind* FindKind(std::string_view wrapper);
// The kind of a destination that cannot be used (there is no such server, or it has another wrapper): accepts every
// topic and no options.
extern const SinkKind kUnknownKind;
// "a, b or c", of wrappers.
std::string WrapperNames();

}  // namespace outbox::sink
