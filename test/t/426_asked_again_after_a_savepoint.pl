# A TRUNCATE of the log that failed, and that a savepoint took back, answers for no later one: what somebody else has
# emitted meanwhile is asked about.
# matrix: C19 R17
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
$node->safe_psql('postgres', q{CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n');
	SELECT outbox.pause('r', reason => 'test');
	CREATE TABLE mine (a int); CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
	CREATE TRIGGER fails BEFORE TRUNCATE ON mine EXECUTE FUNCTION fails();});

my $session = $node->background_psql('postgres', on_error_stop => 0);
sub said { my ($sql) = @_; $session->{stderr} = ''; $session->query($sql); return $session->{stderr} =~ s/^psql:[^ ]* //r }
said('BEGIN');
said('SAVEPOINT a');
like(said('TRUNCATE outbox_internal.log, mine'), qr/ERROR:  no/, 'nothing is undelivered, and a trigger of its own has it fail');
said('ROLLBACK TO a');
$node->safe_psql('postgres', q{SET outbox.lone_emit = allow; SELECT outbox.emit('a', '1', 'e', '{}')});
like(said('TRUNCATE outbox_internal.log'), qr/ERROR:  cannot truncate outbox_internal.log because it holds undelivered events/, 'it is asked about again');
said('ROLLBACK');
$session->quit;
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log'), '1', 'the event is there');
no_server_crashed($node);
done_testing();
