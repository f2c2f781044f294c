#include "worker/destination.h"

#include <dlfcn.h>

#include "log/server_log.h"
#include "pg/transaction.h"
#include "sink/options.h"
#include "sink/process_sink.h"

extern "C" {
#include "access/reloptions.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
}

namespace outbox::worker {

namespace {

struct RawServer {
  Oid oid = InvalidOid;
  std::string wrapper;
  sink::OptionList server;
  sink::OptionList mapping;
};

// Plain, except for `out`, which owns memory.
void AppendOptions(List* options, sink::OptionList* out) {
  ListCell* cell = nullptr;
  foreach (cell, options) {
    DefElem* option = static_cast<DefElem*>(lfirst(cell));
    const char* value = defGetString(option);
    out->emplace_back(option->defname, value);
  }
}

bool ReadMapping(Oid user, Oid server, sink::OptionList* out) {
  HeapTuple tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(user), ObjectIdGetDatum(server));
  if (!HeapTupleIsValid(tuple)) {
    return false;
  }
  bool null = true;
  Datum options = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple, Anum_pg_user_mapping_umoptions, &null);
  if (!null) {
    AppendOptions(untransformRelOptions(options), out);
  }
  ReleaseSysCache(tuple);
  return true;
}

void ReadServer(const char* name, Oid extension_owner, RawServer* raw) {
  ForeignServer* server = GetForeignServerByName(name, true);
  if (server == nullptr) {
    return;
  }
  raw->oid = server->serverid;
  raw->wrapper = GetForeignDataWrapper(server->fdwid)->fdwname;
  AppendOptions(server->options, &raw->server);
  // The server's owner first: another role's secrets are not for brokers that the owner picks.
  (void)(ReadMapping(server->owner, server->serverid, &raw->mapping) ||
         ReadMapping(extension_owner, server->serverid, &raw->mapping) ||
         ReadMapping(InvalidOid, server->serverid, &raw->mapping));
}

DestinationConfig Check(const std::string& name, const RawServer& raw) {
  DestinationConfig config;
  config.oid = raw.oid;
  config.name = name;
  if (raw.oid == InvalidOid) {
    config.problem = {ErrorClass::kConfig, "NO_SERVER", "foreign server \"" + name + "\" does not exist"};
    return config;
  }
  const sink::SinkKind* kind = sink::FindKind(raw.wrapper);
  if (kind == nullptr) {
    config.problem = {ErrorClass::kConfig, "NOT_OURS", "server \"" + name + "\" belongs to wrapper " + raw.wrapper};
    return config;
  }
  config.kind = kind;
  sink::OptionProblem problem = sink::MergeOptions(*kind, raw.server, raw.mapping, &config.options);
  if (!problem.ok()) {
    config.problem = {ErrorClass::kConfig, "BAD_OPTION", problem.message};
  }
  return config;
}

// The directory that outbox.so was loaded from: the sink executables are installed beside it.
std::string LibraryDirectory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&LibraryDirectory), &info) == 0 || info.dli_fname == nullptr) {
    return pkglib_path;
  }
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(pkglib_path) : path.substr(0, slash);
}

// Writes a line for a sink that runs inside the worker: must not throw.
void WriteLogLine(std::string_view line) {
  try {
    int size = static_cast<int>(line.size());
    const char* text = line.data();
    pg::Guard([size, text] { ereport(LOG, (errmsg_internal("outbox event: %.*s", size, text), errhidestmt(true))); });
  } catch (const pg::PgError& error) {
    pg::DropError(error);
  } catch (...) {
  }
}

// Takes the place of the sink of a destination that cannot be used as it is configured.
class UnusableSink final : public sink::Sink {
 public:
  explicit UnusableSink(Error error) { health_ = {false, std::move(error), 1}; }

  void Submit(sink::Batch batch) override {
    sink::Result result;
    result.flow = batch.flow;
    result.first_seq = batch.first_seq;
    result.count = batch.count;
    result.outcome = sink::Outcome::kAborted;
    results_.push_back(std::move(result));
  }
  void Poll(std::vector<sink::Result>* results) override {
    for (sink::Result& result : results_) {
      results->push_back(std::move(result));
    }
    results_.clear();
  }
  void AppendWaits(std::vector<sink::WaitSpec>*) override {}
  const sink::Health& health() const override { return health_; }
  void Close() override { results_.clear(); }

 private:
  sink::Health health_;
  std::vector<sink::Result> results_;
};

}  // namespace

bool DestinationConfig::operator==(const DestinationConfig& other) const {
  return oid == other.oid && name == other.name && kind == other.kind && options == other.options &&
         problem.code == other.problem.code && problem.message == other.problem.message;
}

std::vector<DestinationConfig> LoadDestinations(const std::vector<std::string>& names, uint32_t owner) {
  std::vector<RawServer> raw(names.size());
  pg::InTransaction(CurrentMemoryContext, [&] {
    for (size_t i = 0; i < names.size(); i++) {
      ReadServer(names[i].c_str(), owner, &raw[i]);
    }
  });
  std::vector<DestinationConfig> configs;
  for (size_t i = 0; i < names.size(); i++) {
    configs.push_back(Check(names[i], raw[i]));
  }
  return configs;
}

std::unique_ptr<relay::ServerLog> MakeServerLog(const DestinationConfig& config) {
  if (!config.problem.ok() || config.kind->resends_lost == nullptr) {
    return nullptr;
  }
  return std::make_unique<log::PgServerLog>(config.name, config.kind->resends_lost(config.options));
}

std::unique_ptr<sink::Sink> MakeSink(const DestinationConfig& config, const SinkLimits& limits) {
  if (!config.problem.ok()) {
    return std::make_unique<UnusableSink>(config.problem);
  }
  if (config.kind->make != nullptr) {
    return config.kind->make(config.options, &WriteLogLine);
  }
  sink::SinkConfig sink_config;
  sink_config.name = config.name;
  sink_config.options = config.options;
  sink_config.max_message_bytes = limits.max_message_bytes;
  sink_config.max_inflight_bytes = limits.max_inflight_bytes;
  sink_config.meets = config.kind->resends_lost != nullptr;
  return std::make_unique<sink::ProcessSink>(LibraryDirectory() + "/" + config.kind->program, std::move(sink_config));
}

}  // namespace outbox::worker
