# Whoever reads back what he emitted finds it where he left it, whatever encoding the database has; what cannot be shown as jsonb
# is shown as text, what is no text there as bytes, and no read fails.
# matrix: R44
use strict;
use warnings;

$ENV{PGCLIENTENCODING} = 'UTF8';

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0);
foreach my $encoding (qw(UTF8 LATIN1 SQL_ASCII))
{
	my $database = lc $encoding;
	$node->safe_psql('postgres', "CREATE DATABASE $database ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	$node->safe_psql($database, 'SET client_min_messages = error; CREATE EXTENSION outbox');
	my $shown = sub {
		my ($emit, $read) = @_;
		$read //= q{payload::text, payload_text, payload_bytes FROM outbox.event};
		my ($status, $out, $error) = $node->psql($database, "SET outbox.lone_emit = allow; \\set QUIET on\n\\pset null '-'\nBEGIN;\n$emit \\g /dev/null\nSELECT $read;\nSELECT 'goes on';");
		$out =~ s/^SET\n//;
		return $out . ($error =~ /ERROR/ ? " $error" : '');
	};
	my $hex = sub { return '\\x' . unpack 'H*', $_[0] };
	my $is = sub { my ($emit, $row, $what) = @_; return is($shown->($emit), "$row\ngoes on", "$encoding: $what") };
	my $latin1 = $encoding eq 'LATIN1';
	$is->(q{SELECT outbox.emit('o', 1, 'e', '{"a": "é"}')}, '{"a": "é"}|-|-', 'JSON');
	$is->(q{SELECT outbox.emit_text('o', 1, 'e', 'höllo')}, '-|höllo|-', 'text');
	$is->(q{INSERT INTO outbox.event (aggregate_type, event_type, payload_text) VALUES ('o', 'e', 'höllo')}, '-|höllo|-', 'text by INSERT');
	$is->(q{SELECT outbox.emit_text('o', 1, 'e', '{"a": "é"}', content_type => 'application/json')}, '{"a": "é"}|{"a": "é"}|-', 'text that is JSON');
	$is->(q{SELECT outbox.emit_text('o', 1, 'e', 'é', content_type => 'application/json')}, '-|é|-', 'text that is none');
	$is->(q{SELECT outbox.emit_text('o', 1, 'e', '')}, '-||-', 'no text at all');
	$is->(q{SELECT outbox.emit_bytes('o', 1, 'e', 'x')}, '-|-|\\x78', 'bytes');
	$is->(q{SELECT outbox.emit_bytes('o', 1, 'e', '\xff', content_type => 'text/plain')}, '-|-|\\xff', 'bytes that are no text');
	$is->(q{SELECT outbox.emit_bytes('o', 1, 'e', '\x6100', content_type => 'text/plain')}, '-|-|\\x6100', 'with a zero byte');
	$is->(q{SELECT outbox.emit_bytes('o', 1, 'e', '\xe282ac', content_type => 'text/plain')}, $latin1 ? '-|-|\\xe282ac' : '-|€|-', 'text that one of them has not');
	$is->(q{SELECT outbox.emit_bytes('o', 1, 'e', '\x22e282ac22', content_type => 'application/json')}, $latin1 ? '-|-|\\x22e282ac22' : '"€"|"€"|-', 'JSON that one of them has not');
	my $euro = $encoding eq 'UTF8' ? '{"a": "€"}|-|-' : '-|{"a":"\\u20ac"}|-';
	$is->(q{SELECT outbox.emit('o', 1, 'e', '{"a":"\u20ac"}'::json)}, $euro, 'an escape');
	$is->(q{SELECT outbox.emit_text('o', 1, 'e', '{"a":"\u20ac"}', content_type => 'application/json')}, $euro =~ s/\|-\|/|{"a":"\\u20ac"}|/r, 'an escape in text that is JSON');
	$is->(q{SELECT outbox.emit('o', 1, 'e', '{"a":"\u0000"}'::json)}, '-|{"a":"\\u0000"}|-', 'U+0000');
	$is->(q{SELECT outbox.emit('o', 1, 'e', '{"a":1e400000}'::json)}, '-|{"a":1e400000}|-', 'a number that is too large');
	# Nested deeply, and a number whose digits and exponent are too much together only.
	foreach my $body (q{(repeat('[', 600) || '"\u0000"' || repeat(']', 600))}, q{('{"n":0.' || repeat('1', 7000) || 'e-9999}')})
	{
		is($shown->("SELECT outbox.emit('o', 1, 'e', ${body}::json)", "payload IS NULL, payload_text = $body, payload_bytes IS NULL FROM outbox.event"), "t|t|t\ngoes on",
			"$encoding: beyond jsonb: $body");
	}
	is($shown->(q{INSERT INTO outbox.outboxevent (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid(), 'o', '1', 'e', '{"a": "é"}'), (gen_random_uuid(), 'o', '2', 'e', 'ö'), (gen_random_uuid(), 'o', '3', 'e', '{"a":"\u20ac"}')},
			q{aggregateid, payload FROM outbox.outboxevent ORDER BY 1}), qq(1|{"a": "é"}\n2|ö\n3|{"a":) . ($encoding eq 'UTF8' ? ' "€"}' : '"\\u20ac"}') . "\ngoes on", "$encoding: outbox.outboxevent");
	# What has nothing to do with the document is said.
	is($shown->(q{INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('o', 'e', '{"a":1}')}, q{sum(length(payload::text)) FROM outbox.event}), "8\ngoes on", "$encoding: sums");
}
no_server_crashed($node);
done_testing();
