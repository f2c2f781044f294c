import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm'

@Entity('orders')
export class Order {
  @PrimaryGeneratedColumn({ type: 'bigint' }) id!: string
  @Column('text') customer!: string
}

@Entity('shipment')
export class Shipment {
  @PrimaryGeneratedColumn({ type: 'bigint' }) id!: string
  @Column('text') state!: string
}

// page: entity
@Entity({ schema: 'outbox', name: 'event', synchronize: false })   // synchronize: or it drops columns of the view
export class Event {
  @PrimaryGeneratedColumn('uuid') id!: string
  @Column('text') aggregate_type!: string
  @Column('text', { nullable: true }) aggregate_id?: string | null
  @Column('text') event_type!: string
  @Column('jsonb', { nullable: true }) payload?: object | null
  @Column('jsonb', { nullable: true }) headers?: object | null
  @Column('text', { nullable: true }) topic?: string | null
}
// page end
