// outbox-sink-null: discards events. Started by relay workers.
#include "sink/null/null_sink.h"
#include "sink/serve.h"

int main() {
  outbox::sink::SinkProgram program{
      .library = "", .make = outbox::sink::NullSink::Make, .checkup = outbox::sink::NullSink::Checkup};
  return outbox::sink::Serve(program);
}
