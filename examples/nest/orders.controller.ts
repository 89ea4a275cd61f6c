import { BadRequestException, Body, Controller, Get, Post } from "@nestjs/common";
import { ApiProperty } from "@nestjs/swagger";
import { IdempotencyContext, Idempotent } from "latchkey/nest";
import type { PgTx } from "latchkey/postgres";
import type pg from "pg";
import { Database } from "./database.module.ts";

class NewOrder {
  @ApiProperty()
  item!: string;
}

class Order extends NewOrder {
  @ApiProperty()
  id!: number;
}

@Controller("orders")
export class OrdersController {
  constructor(private readonly database: Database) {}

  /** The order and its key are committed together. */
  @Post()
  @Idempotent("orders.create", { waitMs: 5_000 })
  async create(@Body() { item }: NewOrder, @IdempotencyContext("tx") tx: PgTx<pg.Pool>): Promise<Order> {
    if (typeof item !== "string") throw new BadRequestException("item must be a string");
    const { rows } = await tx.query("insert into orders (item) values ($1) returning id, item", [item]);
    return rows[0];
  }

  @Get()
  async list(): Promise<Order[]> {
    const { rows } = await this.database.pool.query("select id, item from orders order by id");
    return rows;
  }
}
