"""What Alembic and Django make of a database that has the extension: one line of JSON for each question, which
test/clients/migrations.pl judges."""
import os
import subprocess
import sys
import tempfile

from cases import case
import sqlalchemy as sa
from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

engine = sa.create_engine("postgresql+psycopg://")


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    name: Mapped[str] = mapped_column(sa.Text, primary_key=True)


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    customer: Mapped[str] = mapped_column(sa.ForeignKey("customer.name", deferrable=True, initially="DEFERRED"), type_=sa.Text)


class Shipment(Base):
    __tablename__ = "shipment"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    state: Mapped[str] = mapped_column(sa.Text)


class Event(Base):
    __tablename__ = "event"
    __table_args__ = {"schema": "outbox", "info": {"is_view": True}}
    id: Mapped[sa.Uuid] = mapped_column(sa.Uuid, primary_key=True)
    event_type: Mapped[str]


# page: alembic
def include_name(name, type_, parent_names):                    # in env.py
    return type_ != "schema" or name not in ("outbox", "outbox_internal")


def include_object(object, name, type_, reflected, compare_to):
    return not object.info.get("is_view", False)

# context.configure(..., include_name=include_name, include_object=include_object)
# page end


def alembic(**options):
    """The lines of the migration that `alembic revision --autogenerate` writes, and what its statements are."""
    said = []
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"target_metadata": Base.metadata, **options})
        script = produce_migrations(context, Base.metadata)
        lines = [line for line in render_python_code(script.upgrade_ops).splitlines() if "op." in line]
        connection.rollback()
        offline = MigrationContext.configure(dialect_name="postgresql", opts={"as_sql": True, "output_buffer": Collect(said)})
        operations = Operations(offline)
        stack = [script.upgrade_ops]
        while stack:
            op = stack.pop(0)
            if hasattr(op, "ops"):
                stack[:0] = op.ops
            else:
                operations.invoke(op)
    return {"lines": lines, "statements": said}


class Collect:
    def __init__(self, into):
        self.into = into

    def write(self, text):
        if text.strip():
            self.into.append(text.strip())

    def flush(self):
        pass


def django(*arguments, managed=False):
    """manage.py ARGUMENTS in a project whose models are those of django_models.py."""
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as project:
        os.makedirs(f"{project}/shop/migrations")
        for name in ("shop/__init__.py", "shop/migrations/__init__.py"):
            open(f"{project}/{name}", "w").close()
        models = open(f"{here}/django_models.py").read()
        if managed:
            models = models.replace("managed = False", "managed = True")
        open(f"{project}/shop/models.py", "w").write(models)
        open(f"{project}/settings.py", "w").write(
            "import os\nINSTALLED_APPS = ['shop']\nUSE_TZ = True\nDEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'\n"
            "DATABASES = {'default': dict(ENGINE='django.db.backends.postgresql', NAME=os.environ['PGDATABASE'], HOST=os.environ['PGHOST'],"
            " PORT=os.environ['PGPORT'], USER=os.environ['PGUSER'])}\n")

        def manage(*words):
            return subprocess.run([sys.executable, "-m", "django", *words, "--settings=settings", f"--pythonpath={project}"],
                                  check=True, capture_output=True, text=True, cwd=project).stdout
        if arguments[0] == "sqlmigrate":
            manage("makemigrations", "shop")
        return [line for line in manage(*arguments).splitlines() if line.strip() and not line.startswith(("--", "#"))]


case("alembic", lambda: alembic())
case("alembic_all_schemas", lambda: alembic(include_schemas=True))
case("alembic_set", lambda: alembic(include_schemas=True, include_name=include_name, include_object=include_object))
case("django_inspectdb", lambda: {"lines": django("inspectdb", "--include-partitions", "--include-views")})
case("django_managed", lambda: {"statements": django("sqlmigrate", "shop", "0001", managed=True)})
case("django_set", lambda: {"statements": django("sqlmigrate", "shop", "0001")})
