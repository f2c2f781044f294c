# What emit_row() makes of amounts of money is the same in sessions of any lc_monetary, as a column, in an array, a composite, a domain or a
# range, with columns left out, and as a key; what the session has set stays.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

# A locale that writes it in another way: made here, found by this server.
my $locales = PostgreSQL::Test::Utils::tempdir() . '/locales';
mkdir $locales;
plan skip_all => 'localedef cannot make a locale' if system("localedef -i en_GB -f UTF-8 '$locales/en_GB.UTF-8' > /dev/null 2>&1") != 0;
chmod 0755, $locales;
my $node = do { local $ENV{LOCPATH} = "$locales:/usr/lib/locale"; new_node(conf => "outbox.lone_emit = allow\n") };
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $british = q(SET lc_monetary = 'en_GB.UTF-8'; );
plan skip_all => 'the server does not find the locale' if ($node->psql('postgres', "$british SELECT 1"))[0] != 0;

sql(q{CREATE TYPE price AS (amount money, unit text); CREATE DOMAIN fee AS money; CREATE DOMAIN fees AS money[]; CREATE TYPE prices AS RANGE (subtype = money);
	CREATE TABLE plain (id int PRIMARY KEY, v money); CREATE TABLE listed (id int PRIMARY KEY, v money[]); CREATE TABLE composed (id int PRIMARY KEY, v price[]);
	CREATE TABLE own (id int PRIMARY KEY, v fee); CREATE TABLE owns (id int PRIMARY KEY, v fees); CREATE TABLE ranged (id int PRIMARY KEY, v prices);
	CREATE TABLE keyed (id money PRIMARY KEY, v int); CREATE TABLE partly (id int PRIMARY KEY, v money, secret text);
	CREATE TRIGGER t AFTER INSERT OR UPDATE ON partly FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('partly', 'id', '', 'secret')});
sql("CREATE TRIGGER t AFTER INSERT OR UPDATE ON $_ FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('$_', 'id')") foreach qw(plain listed composed own owns ranged keyed);
my %value = (plain => q('1234.5'), listed => q('{"1,234.50"}'), composed => q(ARRAY[ROW(1234.5, 'each')::price]), own => q('1234.5'), owns => q('{"1,234.50"}'),
	ranged => q('["1,234.50","2,000.00"]'), keyed => '1', partly => q('1234.5'));
sql("INSERT INTO $_ VALUES (7, $value{$_})") foreach sort keys %value;
sql("$british UPDATE $_ SET v = v") foreach sort keys %value;
is(sql(q{SELECT aggregate_type, aggregate_id, count(*), count(DISTINCT payload), min(convert_from(payload, 'UTF8')) FROM outbox_internal.log GROUP BY 1, 2 ORDER BY 1, 2}), <<'END' =~ s/\n$//r, 'each comes twice, and the same');
composed|7|2|1|{"id":7,"v":[{"amount":"$1,234.50","unit":"each"}]}
keyed|$7.00|2|1|{"id":"$7.00","v":1}
listed|7|2|1|{"id":7,"v":["$1,234.50"]}
own|7|2|1|{"id":7,"v":"$1,234.50"}
owns|7|2|1|{"id":7,"v":["$1,234.50"]}
partly|7|2|1|{"id":7,"v":"$1,234.50"}
plain|7|2|1|{"id":7,"v":"$1,234.50"}
ranged|7|2|1|{"id":7,"v":"[\"$1,234.50\",\"$2,000.00\"]"}
END
isnt(sql(q(SELECT 7::money)), (my $pounds = sql("$british SELECT 7::money")), 'the session of the updates writes another way');
is(sql("$british UPDATE plain SET v = v; SELECT 7::money"), $pounds, 'and goes on so');
no_server_crashed($node);
done_testing();
