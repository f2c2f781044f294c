# A lane that this server has no memory for: the server's log warns of it as of any other trouble that lasts, in words that are true,
# and doctor() says the same; every class of error has its row on the page for when things go wrong.
# matrix: M4
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('all'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub said { my ($what, $name) = @_; return ok(wait_until(sub { slurp_file($node->logfile) =~ $what }, 60), $name) || diag(slurp_file($node->logfile)) }

# No event can be parked: one for later stops its lane.
sql(q(SET outbox.allow_loss = on; CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'out of memory' USING ERRCODE = '53200'; END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON outbox_internal.parked FOR EACH ROW EXECUTE FUNCTION public.refuse()));
sql(q(SELECT outbox.emit('order', 'k', 'one', '{}', deliver_at => now() + interval '1 day')));
said(qr/WARNING:  outbox: lane 0 of route "redis" is in trouble: out of memory\n.*DETAIL:  The error is 53200\..*\n.*HINT:  Give the machine more memory/, 'a warning, with what to do');
is(sql(q(SELECT error_class || ' ' || error_code FROM outbox.lag)), 'internal 53200', 'outbox.lag has it');
like(sql(q(SELECT hint FROM outbox.doctor() WHERE "check" = 'lane' AND status <> 'ok')), qr/^Give the machine more memory/, 'doctor() says what to do, too');
sql(q(SET outbox.allow_loss = on; DROP TRIGGER refuse ON outbox_internal.parked));
said(qr/LOG:  outbox: lane 0 of route "redis" works again after [\d.]+ s/, 'and that it is over');

sub classes { my ($page) = @_; my %class = map { $_ => 1 } slurp_file("$ENV{OUTBOX_TOP}/docs/$page") =~ /^\| `(message|solo-retry|topic|destination|config|fatal client|internal)` \|/gm; return join ' ', sort keys %class }
is(classes('when-things-go-wrong.md'), classes('errors.md'), 'the page has a row for each class that there is');
no_server_crashed($node);
done_testing();
