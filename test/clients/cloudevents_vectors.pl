# The formats cloudevents and cloudevents-json, held against events that others have written down: those with which the official SDK for
# Java tests its own bindings (of its package of tests), and those of the specification's own conformance tests, where
# OUTBOX_CLOUDEVENTS_CONFORMANCE names a checkout of github.com/cloudevents/conformance. Each is emitted, goes to Kafka in both
# formats, and the record has what the SDK itself writes for that event, header by header, or what the scenario says; nothing else
# but outbox's own extensions. The SDKs for Python, Java and JavaScript read it into the attributes of the vector; the last one holds it
# against the specification's JSON Schema. What outbox cannot express is skipped by name, with the reason.
use strict;
use warnings;

use Encode ();
use IPC::Run;
use JSON::PP;
use MIME::Base64;
use Outbox::Test;
use Test::More;

Outbox::Kafka->skip_without;
my $there = $ENV{OUTBOX_CLIENTS};
my %lacks = map { /^(\S+) (.*)/ && $2 ne 'ok' ? ($1 => $2) : () } split /\n/, $ENV{OUTBOX_CLIENTS_SAID} // '';
my $json = JSON::PP->new->utf8->allow_nonref->canonical;
my %program = (
	python => [ "$there/python/venv/bin/python", "$there/python/cloudevents_consumer.py" ],
	conformance => [ "$there/python/venv/bin/python", "$there/python/cloudevents_vectors.py" ],
	java => [ 'java', '-cp', "$there/java/lib/*:$there/java/classes", 'CloudEventsConsumer' ],
	vectors => [ 'java', '-cp', "$there/java/lib/*:$there/java/classes", 'CloudEventsVectors' ],
	node => [ 'node', "$there/node/cloudevents_reader.mjs" ]);

# The lines of JSON that a program prints, told lines of JSON.
sub lines_of
{
	my ($program, $arguments, @told) = @_;
	my ($in, $out, $err) = (join('', map { $json->encode($_) . "\n" } @told), '', '');
	IPC::Run::run([ @{ $program{$program} }, @$arguments ], '<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout(180)) or diag("$program: $err");
	return map { $json->decode($_) } split /\n/, $out;
}

sub skipped
{
	my ($what, $why) = @_;
  SKIP: { skip "$what: $why", 1 }
	return;
}

# --- the vectors: {name, sdk or not, mode, attributes, data (bytes), headers, record} ---

my @vectors;
if (defined $lacks{java}) { skipped('the events of the SDK for Java', $lacks{java}) }
else
{
	push @vectors, map { { %$_, sdk => 1, mode => 'any', headers => {}, data => defined $_->{data} ? decode_base64($_->{data}) : undef } } lines_of('vectors', []);
	cmp_ok(scalar(@vectors), '>=', 9, 'the events of the SDK for Java: ' . @vectors);
}
my $checkout = $ENV{OUTBOX_CLOUDEVENTS_CONFORMANCE};
if (!defined $checkout) { skipped("the specification's conformance tests", 'OUTBOX_CLOUDEVENTS_CONFORMANCE names no checkout of github.com/cloudevents/conformance') }
elsif (defined $lacks{python}) { skipped("the specification's conformance tests", $lacks{python}) }
else
{
	my @told = map { { %$_, data => decode_base64($_->{data}) } } lines_of('conformance', [$checkout]);
	cmp_ok(scalar(@told), '>=', 11, "the specification's conformance tests: " . @told);
	push @vectors, @told;
}
plan(skip_all => 'no events to compare with') if !@vectors;

# --- emitted ---

my $kafka = Outbox::Kafka->start;
my $node = new_node();
$node->safe_psql('postgres', "CREATE SERVER kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS (\"bootstrap.servers\" '$kafka->{bootstrap}')");
my %format = (binary => 'cloudevents', structured => 'cloudevents-json');
my %source;
$source{ $_->{attributes}{source} } //= 'vector' . keys %source foreach @vectors;
foreach my $mode (sort keys %format)
{
	$kafka->create_topic($mode, 1);
	foreach my $source (sort keys %source)
	{
		$node->safe_psql('postgres', "SELECT outbox.create_route('$mode $source{$source}', server => 'kafka', topic => '$mode', format => '$format{$mode}',
			aggregate_types => '{$source{$source}}', options => " . sql_literal($json->encode({ source => $source })) . ')');
	}
}

my %core = map { $_ => 1 } qw(specversion id source type time subject datacontenttype dataschema);
foreach my $vector (@vectors)
{
	my %said = %{ $vector->{attributes} };
	is($said{specversion}, '1.0', "$vector->{name}: of version 1.0");
	my %headers = ((map { $_ => $said{$_} } grep { !$core{$_} || $_ eq 'dataschema' } keys %said), %{ $vector->{headers} });
	my ($key, $payload, $type) = ($said{subject}, 'NULL', 'NULL');
	if (defined $vector->{data}) { ($payload, $type) = ("'\\x" . unpack('H*', $vector->{data}) . "'", sql_literal($said{datacontenttype} // 'application/json')) }
	else { $key //= 'key' }
	my $headers = %headers ? sql_literal($json->encode(\%headers)) : 'NULL';
	my $call = defined $vector->{data} ? 'emit_bytes(%s, %s::text, %s, ' . "$payload, $type, headers => $headers)" : "emit_tombstone(%s, %s::text, %s, $headers)";
	$vector->{id} = $node->safe_psql('postgres', 'SELECT outbox.'
		  . sprintf($call, map { defined $_ ? sql_literal($_) : 'NULL' } $source{ $said{source} }, $key, $said{type}));
	$vector->{key} = $key;
}
my %told = map { my ($id, $time, $sequence) = split /\|/; $id => { time => $time, sequence => $sequence } } split /\n/, $node->safe_psql('postgres',
	q{SELECT id, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), (extract(epoch FROM created_at) * 1000000)::bigint FROM outbox_internal.log});
ok(wait_idle($node), 'delivered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'nothing was parked');

# What the specification forbids in an attribute of type String. A vector that has it tells of another version of the specification.
sub is_plain { my ($value) = @_; return $value !~ /[\x00-\x1f\x7f]/ }

# The attributes that outbox gives the event: those of the vector, but for what it says itself.
skipped('id of each vector', 'the id of an event is a UUID');
like(($node->psql('postgres', q{INSERT INTO outbox.event (id, aggregate_type, event_type, payload) VALUES ('1234-1234-1234', 'a', 'b', '1')}))[2],
	qr/invalid input syntax for type uuid/, 'the id of an event is a UUID');
skipped('time of each vector', 'the time of an event is when it was emitted');
like($node->safe_psql('postgres', q{INSERT INTO outbox.event (aggregate_type, event_type, payload, created_at) VALUES ('nobody', 'b', '1', '2018-04-05T03:56:24Z') RETURNING created_at}),
	qr/^20[2-9]/, 'the time of an event is when it was emitted');
foreach my $vector (@vectors)
{
	my %wanted = (%{ $vector->{attributes} }, id => $vector->{id}, time => $told{ $vector->{id} }{time});
	foreach my $name (grep { !is_plain($wanted{$_}) } sort keys %wanted)
	{
		skipped("$vector->{name}: $name", 'has a control character, which the specification forbids: stays a header');
		delete $wanted{$name};
		$vector->{header}{$name} = 1;
	}
	if (!defined $vector->{data} && !defined $wanted{subject})
	{
		skipped("$vector->{name}: without a subject", 'an event without data is a tombstone, which needs a key');
		$wanted{subject} = $vector->{key};
	}
	$vector->{wanted} = \%wanted;
}

# --- the records ---

sub instant { my ($time) = @_; return $time =~ s/(?:\.(\d*?)0*)?Z$/(length($1 \/\/ '') ? ".$1" : '') . 'Z'/er }
sub type_of { my ($type) = @_; return lc($type =~ s/;\s*/; /r) }

# What the SDK makes of the event, by name of the vector.
my %peer;
foreach my $told (lines_of('vectors', ['records'], map {
		my $vector = $_;
		{ name => $vector->{name}, attributes => { map { $_ => $vector->{wanted}{$_} } grep { ($vector->{attributes}{$_} // '') ne $vector->{wanted}{$_} } keys %{ $vector->{wanted} } } }
	} grep { $_->{sdk} } @vectors))
{
	foreach my $mode (qw(binary structured))
	{
		$told->{$mode}{value} = decode_base64($told->{$mode}{value}) if defined $told->{$mode}{value};
	}
	$peer{ $told->{name} } = $told;
}

# The record that is wanted: the SDK's, or the scenario's with the event's own id and time, or the attributes as they are.
sub record_wanted
{
	my ($vector, $mode) = @_;
	my %attributes = %{ $vector->{wanted} };
	return $peer{ $vector->{name} }{$mode} if $vector->{sdk};
	if ($vector->{record})
	{
		my %headers = %{ $vector->{record}{headers} };
		my $value = $vector->{record}{value};
		utf8::encode($value);
		return { headers => { %headers, map { ("ce_$_" => $attributes{$_}) } qw(id time) }, value => $value } if $mode eq 'binary';
		return { headers => \%headers, value => $json->encode({ %{ $json->decode($value) }, map { $_ => $attributes{$_} } qw(id time) }) };
	}
	my $type = delete $attributes{datacontenttype};
	return { headers => { (map { ("ce_$_" => $attributes{$_}) } keys %attributes), defined $type ? ('content-type' => $type) : () }, value => $vector->{data} }
	  if $mode eq 'binary';
	my $is_json = ($type // 'application/json') =~ m{^application/json\b};
	my $text = $vector->{data};
	utf8::decode($text);
	return { headers => { 'content-type' => 'application/cloudevents+json; charset=UTF-8' },
		value => $json->encode({ %attributes, defined $type ? (datacontenttype => $type) : (), data => $is_json ? $json->decode($vector->{data}) : $text }) };
}

sub compare_attributes
{
	my ($what, $vector, $got, $wanted) = @_;
	my %got = map { $_ => $got->{$_} } grep { defined $got->{$_} } keys %$got;
	my %wanted = %$wanted;
	foreach my $attributes (\%got, \%wanted) { $attributes->{time} = instant($attributes->{time}) if defined $attributes->{time} }
	# Said in any case; where the vector says nothing, that is the same.
	foreach my $name (grep { defined $got{$_} && !defined $wanted{$_} } qw(time datacontenttype)) { $wanted{$name} = $got{$name} }
	my %own = (aggregatetype => $source{ $vector->{attributes}{source} }, sequence => $told{ $vector->{id} }{sequence}, defined $vector->{key} ? (partitionkey => $vector->{key}) : ());
	is_deeply({ map { $_ => delete $got{$_} } grep { /^(?:aggregatetype|partitionkey|sequence)$/ } keys %got }, \%own, "$what: outbox's own extensions");
	is_deeply(\%got, \%wanted, "$what: every attribute, and no other");
	return;
}

my %records = map { my $mode = $_; $mode => { map {
	my $record = $_;
	my $id = $record->{headers}{ce_id} // $json->decode(Encode::encode('UTF-8', $record->{payload}))->{id};
	$id => $record } @{ $kafka->records($mode) } } } qw(binary structured);
foreach my $vector (@vectors)
{
	foreach my $mode ($vector->{mode} eq 'any' ? qw(binary structured) : $vector->{mode})
	{
		my $what = "$vector->{name}, $mode";
		my $record = $records{$mode}{ $vector->{id} } or fail("$what: arrived"), next;
		my $wanted = record_wanted($vector, $mode);
		my %headers = %{ $record->{headers} };
		is(delete $headers{$_}, $vector->{headers}{$_} // $vector->{attributes}{$_}, "$what: header $_") foreach sort keys %{ $vector->{headers} }, sort keys %{ $vector->{header} };
		is($record->{key}, $vector->{key}, "$what: key");
		my $value = $record->{payload};
		utf8::encode($value) if defined $value;
		if ($mode eq 'binary')
		{
			my %attributes = map { my $name = $_; (($name eq 'content-type' ? 'datacontenttype' : $name =~ s/^ce_//r) => $headers{$name}) } keys %headers;
			my %as = map { my $name = $_; (($name eq 'content-type' ? 'datacontenttype' : $name =~ s/^ce_//r) => $wanted->{headers}{$name}) } keys %{ $wanted->{headers} };
			is_deeply([ grep { !/^ce_[a-z0-9]+$/ && $_ ne 'content-type' } sort keys %headers ], [], "$what: names of headers");
			delete @as{ keys %{ $vector->{header} // {} } };
			compare_attributes($what, $vector, \%attributes, \%as);
			is($value, $wanted->{value}, "$what: the data, byte by byte");
			next;
		}
		my ($type, $type_wanted) = map { type_of($_) } $headers{'content-type'}, $wanted->{headers}{'content-type'};
		if ($type ne $type_wanted && $type =~ /^\Q$type_wanted\E; charset=utf-8$/) { skipped("$what: content type $type_wanted", 'outbox says the charset, too') }
		else { is($type, $type_wanted, "$what: content type") }
		my ($got, $as) = map { $json->decode($_) } $value, $wanted->{value};
		my @typed = grep { !$core{$_} && $_ !~ /^data/ && (ref $as->{$_} || $wanted->{value} !~ /"\Q$_\E"\s*:\s*"/) } sort keys %$as;
		skipped("$what: types of " . join(', ', @typed), 'the value of a header is text') if @typed;
		$as->{$_} = ref $as->{$_} ? ($as->{$_} ? 'true' : 'false') : "$as->{$_}" foreach @typed;
		my @data = map { my $event = $_; my ($data, $base64) = delete @{$event}{qw(data data_base64)}; defined $base64 ? Encode::decode('UTF-8', decode_base64($base64)) : $data } $got, $as;
		is_deeply($data[0], $data[1], "$what: the data");
		compare_attributes($what, $vector, $got, $as);
	}
}

# --- the SDKs ---

sub compare_read
{
	my ($what, $vector, $read) = @_;
	my %got = (%{ $read->{extensions} }, map { $_ => $read->{$_} } grep { defined $read->{$_} } keys %core);
	my $wanted = { specversion => '1.0', %{ $vector->{wanted} } };
	$got{specversion} //= '1.0';
	compare_attributes($what, $vector, \%got, $wanted);
	compare_data($what, $vector, defined $read->{bytes} ? decode_base64($read->{bytes}) : $read->{data});
	return;
}

# As bytes, or as what the SDK has made of JSON or of text.
sub compare_data
{
	my ($what, $vector, $data) = @_;
	my $is_json = ($vector->{attributes}{datacontenttype} // 'application/json') =~ m{^application/json\b};
	my $wanted = $is_json && defined $vector->{data} ? $json->decode($vector->{data}) : $vector->{data};
	if (defined $data && !ref $data)
	{
		my $bytes = utf8::is_utf8($data) ? Encode::encode('UTF-8', $data) : $data;
		# A string of JSON is read already where the SDK reads JSON.
		$data = $is_json ? eval { $json->decode($bytes) } // $data : $bytes;
	}
	# The SDK for Python makes an empty value of none.
	$data = undef if !defined $wanted && defined $data && $data eq '';
	is_deeply($data, $wanted, "$what: data");
	return;
}
my %by_id = map { $_->{id} => $_ } @vectors;
sub time_of { my ($micros) = @_; my @t = gmtime(int($micros / 1000000)); return sprintf('%04d-%02d-%02dT%02d:%02d:%02d.%06dZ', $t[5] + 1900, $t[4] + 1, @t[ 3, 2, 1, 0 ], $micros % 1000000) }
foreach my $mode (qw(binary structured))
{
	my $count = keys %{ $records{$mode} };
	foreach my $language (qw(python java))
	{
		if (defined $lacks{$language}) { skipped("$mode, read by the SDK for $language", $lacks{$language}); next }
		my @read = lines_of($language, [ $kafka->{bootstrap}, $mode, $count ]);
		is(scalar(@read), $count, "$mode: the SDK for $language reads all");
		foreach my $read (@read)
		{
			my $vector = $by_id{ $read->{id} } or fail("$mode, $language: $read->{id} is unknown"), next;
			$read->{time} = time_of($read->{time});
			compare_read("$vector->{name}, $mode, read in $language", $vector, $read);
		}
	}
	if (defined $lacks{node}) { skipped("$mode, read by the SDK for JavaScript", $lacks{node}); next }
	my @with_value = grep { defined $_->{payload} } map { $records{$mode}{$_} } sort keys %{ $records{$mode} };
	skipped("$mode: tombstones, read in JavaScript", 'the SDK takes no record without a value') if @with_value < $count;
	my @read = lines_of('node', [], map { { headers => $_->{headers}, key => $_->{key}, value => encode_base64(Encode::encode('UTF-8', $_->{payload}), '') } } @with_value);
	is(scalar(@read), scalar(@with_value), "$mode: the SDK for JavaScript reads all");
	foreach my $read (@read)
	{
		is($read->{error}, undef, "$mode, JavaScript: is one by the specification's schema") or next;
		my $vector = $by_id{ $read->{attributes}{id} } or fail("$mode, JavaScript: unknown"), next;
		# It cuts times to milliseconds.
		my %wanted = %{ $vector->{wanted} };
		$wanted{time} = $wanted{time} =~ s/(\.\d{3})\d*Z/$1Z/r;
		compare_attributes("$vector->{name}, $mode, read in JavaScript", $vector, $read->{attributes}, \%wanted);
		compare_data("$vector->{name}, $mode, read in JavaScript", $vector, $read->{data});
	}
}
no_server_crashed($node);
done_testing();
