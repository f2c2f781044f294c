# doctor() and lone events that were mended, or are allowed by now: an hour after the last one it says nothing more, so that doctor_ok()
# can be true again without a restart; what the view has counted stays.
use strict;
use warnings;

use Outbox::Clock;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Clock::prepare(PostgreSQL::Test::Utils::tempdir());
my $node = Outbox::Clock::with(sub { return new_node() });
# The role that looks allows none, whatever those that emit may do.
sub sql { my ($query) = @_; return $node->safe_psql('postgres', "SET outbox.lone_emit = warn; $query") }
sub sql_allowed { my ($query) = @_; return $node->safe_psql('postgres', "SET outbox.lone_emit = allow; $query") }
my $told = q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'lone events'};

sql(q{SELECT outbox.emit('order', 1, 'e', '{}')});
is(sql($told), 1, 'a lone event is told');
is(sql_allowed($told), 0, 'but not to who allows it');
sql_allowed(q{SELECT outbox.emit('order', 1, 'e', '{}')});
Outbox::Clock::set(3500);
is(sql($told), 1, 'within an hour');
Outbox::Clock::set(3700);
is(sql($told), 0, 'and no more after that');
is(sql('SELECT lone FROM outbox.lone_emit'), 1, 'it was counted');
sql(q{SELECT outbox.emit('order', 1, 'e', '{}')});
is(sql($told), 1, 'the next one is told again');
no_server_crashed($node);
done_testing();
