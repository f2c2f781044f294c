# An error that quotes a payload tells the client, and the server's log has no part of it: of schemas, and of JSON that cannot be read.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
# (The statement itself is PostgreSQL's to write.)
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET log_min_error_statement = panic; ALTER DATABASE postgres SET outbox.lone_emit = allow});
$node->safe_psql('postgres', q{SELECT outbox.event_schema('person', 'person.changed', '{"properties": {"iban": {"pattern": "^DE"}, "age": {"type": "integer"}, "kind": {"enum": ["a", "b"]},
	"tags": {"uniqueItems": true}, "names": {"additionalProperties": {"type": "string"}}, "either": {"anyOf": [{"type": "null"}, {"const": 1}]}, "no": {"not": {"type": "string"}},
	"again": {"additionalProperties": {"$ref": "#/properties/again"}}, "length": {"maxLength": 3}, "keys": {"propertyNames": {"maxLength": 2}}, "like": {"patternProperties": {"^S": false}}}}')});

sub refused {
	my ($call, $client, $log, $what) = @_;
	my $at = -s $node->logfile;
	my (undef, undef, $error) = $node->psql('postgres', $call);
	like($error, $client, "$what: the client is told");
	my $lines = slurp_file($node->logfile, $at);
	like($lines, $log, '... the log has where, or that more was told');
	unlike($lines, qr/SECRET/, '... and no part of the payload');
	return;
}
sub of_schema {
	my ($payload, $client, $log, $what) = @_;
	return refused(qq{SELECT outbox.emit('person', 'SECRET-key', 'person.changed', '$payload')}, $client, $log, $what);
}
of_schema('{"iban": "SECRET"}', qr{DETAIL:  At /iban: expected what matches "\^DE", not "SECRET"\.}, qr{DETAIL:  At /iban: expected what matches "\^DE", not what is there\.}, 'pattern');
of_schema('{"age": "SECRET"}', qr{expected integer, not "SECRET"}, qr{At /age: expected integer, not what is there\.}, 'type');
of_schema('{"kind": "SECRET"}', qr{expected one of \["a", "b"\], not "SECRET"}, qr{At /kind: expected one of \["a", "b"\], not what is there\.}, 'enum');
of_schema('{"tags": ["SECRET", "SECRET"]}', qr{not "SECRET" twice}, qr{At /tags: expected unique elements, not what is there twice\.}, 'uniqueItems');
of_schema('{"names": {"SECRET": 1}}', qr{At /names/SECRET: expected string, not 1}, qr{At /names/\*: expected string, not what is there\.}, 'a name');
of_schema('{"keys": {"SECRET": 1}}', qr{At /keys/SECRET: expected at most 2}, qr{At /keys/\*: expected at most 2 characters, not 6\.}, 'a name that is checked itself');
of_schema('{"like": {"SECRET": 1}}', qr{At /like/SECRET: nothing}, qr{At /like/\*: nothing is allowed here\.}, 'a name that matches');
of_schema('{"either": "SECRET"}', qr{"SECRET" matches none of the 2}, qr{At /either: what is there matches none of the 2 schemas of "anyOf"\.}, 'anyOf');
of_schema('{"no": "SECRET"}', qr{"SECRET" is what "not" excludes}, qr{At /no: what is there is what "not" excludes\.}, 'not');
of_schema('{"length": "SECRET"}', qr{At /length: expected at most 3 characters, not 6}, qr{At /length: expected at most 3 characters, not 6\.}, 'length');
my $deep = '{"SECRET": ' x 1100 . '1' . '}' x 1100;
of_schema(qq({"again": $deep}), qr{At /again/SECRET/}, qr{At /again/\*/\*/.*the check was \d+ steps deep}, 'too deep');

my $more = qr/The client was told more: no part of a payload is in the log/;
refused(q{SELECT outbox.emit_text('person', 'SECRET', 'person.changed', 'SECRET', 'application/json')}, qr/Token "SECRET" is invalid.*JSON data, line 1: SECRET/s, $more, 'text that is to be JSON');
refused(q{SELECT outbox.emit('other', 'SECRET', 'e', 'SECRET'::text)}, qr/Token "SECRET" is invalid.*JSON data, line 1: SECRET/s, $more, 'a typed string');
refused(q{SELECT outbox.emit_many_json('[{"payload": SECRET}]')}, qr/Token "SECRET" is invalid/, $more, 'many');
refused(q{SELECT outbox.emit_many_json('[{"payload": "SECRET \u0000"}]')}, qr/u0000 cannot be converted.*JSON data, line 1: .*SECRET/s, $more, 'many that jsonb cannot hold');
no_server_crashed($node);
done_testing();
