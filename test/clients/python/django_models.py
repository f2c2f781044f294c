"""The models of a Django project: django_client.py uses them, migrations.py makes a project with them."""
import uuid

from django.db import models


class Order(models.Model):
    customer = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


class Shipment(models.Model):
    state = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "shipment"


# page: entity
class Event(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    aggregate_type = models.TextField()
    aggregate_id = models.TextField(null=True)
    event_type = models.TextField()
    payload = models.JSONField(null=True)
    headers = models.JSONField(null=True)
    topic = models.TextField(null=True)

    class Meta:
        app_label = "shop"
        db_table = 'outbox"."event'       # Django quotes the whole of it: "outbox"."event"
        managed = False                   # or makemigrations makes a table of it
# page end
