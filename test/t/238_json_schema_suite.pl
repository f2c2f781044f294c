# The official test suite of JSON Schema against what outbox.event_schema() registers and emit() asserts: every answer is right,
# and what is not asserted here is refused when it is registered, never passed over. Debian: json-schema-test-suite.
# matrix: H10
# ring: long
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $suite = $ENV{OUTBOX_JSON_SCHEMA_SUITE} // '/usr/share/json-schema-test-suite';
plan skip_all => 'no package json-schema-test-suite' unless -d "$suite/tests/draft7";
my $node = new_node(conf => "outbox.workers = 0\n");
$node->safe_psql('postgres', q{
	CREATE TABLE result (file text, what text, test text, wanted boolean, got text);
	CREATE PROCEDURE run(file text, content json) LANGUAGE plpgsql AS $$
	DECLARE grp json; test json; answer text;
	BEGIN
		FOR grp IN SELECT * FROM json_array_elements(content) LOOP
			BEGIN
				PERFORM outbox.event_schema('o', 'e', (grp -> 'schema')::jsonb);
			EXCEPTION WHEN OTHERS THEN
				INSERT INTO result VALUES (file, grp ->> 'description', NULL, NULL, 'refused: ' || SQLERRM || ': ' || (grp ->> 'schema'));
				CONTINUE;
			END;
			FOR test IN SELECT * FROM json_array_elements(grp -> 'tests') LOOP
				answer := 'true';
				BEGIN
					PERFORM outbox.emit_text('o', NULL::text, 'e', (test -> 'data')::text, 'application/json');
				EXCEPTION WHEN invalid_parameter_value THEN answer := 'false';
				WHEN OTHERS THEN answer := SQLERRM;
				END;
				INSERT INTO result VALUES (file, grp ->> 'description', test ->> 'description', (test ->> 'valid')::boolean, answer);
			END LOOP;
		END LOOP;
	END $$});
my @drafts = grep { -d "$suite/tests/$_" } qw(draft6 draft7 draft2019-09 draft2020-12);
foreach my $draft (@drafts)
{
	foreach my $file (glob("$suite/tests/$draft/*.json"))
	{
		# Of later drafts, and remote references.
		next if $file =~ m{/(refRemote|unevaluated\w*|dynamicRef|recursiveRef|anchor|id|vocabulary|unknownKeyword|infinite-loop-detection)\.json$};
		$node->safe_psql('postgres', "CALL run('$draft/" . ($file =~ m{([^/]+)$})[0] . "', pg_read_file('$file')::json)");
	}
}
# What stands beside a $ref is asserted, as from 2019-09 on.
my $wrong = $node->safe_psql('postgres', q{SELECT concat_ws(' | ', file, what, test, wanted, got) FROM result WHERE wanted IS NOT NULL AND wanted::text <> got
	AND NOT (file ~ '^draft[67]/ref' AND what = 'ref overrides any sibling keywords') ORDER BY 1});
is($wrong, '', 'no answer is wrong');
my $refused = $node->safe_psql('postgres', q{SELECT concat_ws(' | ', file, what, got) FROM result WHERE wanted IS NULL AND got !~ 'unevaluated|dynamicRef|recursiveRef|"\$ref": *"[^#]|\$id|"\$ref": *"#[^/]|\$anchor|\\\\p\{' ORDER BY 1});
is($refused, '', 'nothing is refused but references to elsewhere');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM result WHERE wanted IS NOT NULL'), '>', 400, 'of hundreds of tests');
done_testing();
