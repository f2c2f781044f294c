// Why a certificate that a broker shows is not accepted [-]. The library's text says that it is not, and to look at
// ssl.ca.location, whatever it is; what OpenSSL has found is told to a callback alone.
#pragma once

#include <librdkafka/rdkafka.h>

#include <string>
#include <string_view>

namespace outbox::sink::kafka {

// Has a client that is made of it note what OpenSSL finds. What is accepted stays the same.
void NoteCertificates(rd_kafka_conf_t* conf);

// Of a text of the library's about a connection to a broker whose certificate was not accepted: the same with the
// reason. Any other one, and one whose reason is not known, as it is.
std::string WithVerdict(std::string text);

// Whether the text says that the time of a certificate is over, or has not come.
bool OutOfDates(std::string_view text);

}  // namespace outbox::sink::kafka
